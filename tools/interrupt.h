// Ctrl-C and SIGTERM as a flag, for verbs that must tidy up.
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace dsv4::tools {

// Set by the first SIGINT or SIGTERM from the first call on; a second one ends the process at once.
const std::atomic<bool>& InterruptFlag();

// The same for a part of a verb: afterwards signals do what they did before.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>& flag() const;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

  std::array<struct sigaction, kSignals.size()> before_;
};

}  // namespace dsv4::tools
