// What signals do to the program as a whole. Those that ask a verb to stop: interrupt.h.
#pragma once

#include <array>
#include <csignal>

namespace dsv4::tools {

// To be called first. A write that fails returns its error instead of ending the program, and a
// mapped file that shrinks ends it with a message and exit code 1.
void SetUpSignals();

// While a line is edited the terminal shows nothing by itself: what ends the program gives it back
// as it was at the beginning of the scope. One at a time.
class EditingScope {
 public:
  EditingScope();
  ~EditingScope();
  EditingScope(const EditingScope&) = delete;
  EditingScope& operator=(const EditingScope&) = delete;

 private:
  static constexpr std::array kSignals = {SIGTERM, SIGHUP};

  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace dsv4::tools
