#include "tools/signals.h"

#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "tools/command.h"

namespace dsv4::tools {
namespace {

std::atomic<bool> editing = false;
static_assert(std::atomic<bool>::is_always_lock_free, "read in signal handlers");
termios terminal_before;  // of standard input; written before `editing` is set

// Handlers call nothing but what may be called in them (man 7 signal-safety).
void GiveTerminalBack() {
  // In the background it is the shell's, which has set it up for itself.
  if (editing && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp()) {
    ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_before);
  }
}

// The signal ends the program as if nobody had caught it.
void EndBy(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void OnEndWhileEditing(int signal) {
  GiveTerminalBack();
  EndBy(signal);
}

void OnBusError(int signal, siginfo_t* info, void*) {
  constexpr std::string_view kText =
      "dsv4: a file that was being read shrank, or its disk failed\n";
  GiveTerminalBack();
  if (info->si_code != BUS_ADRERR) return EndBy(signal);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kExitFailed);
}

}  // namespace

void SetUpSignals() {
  // A closed pipe is an error of the write, not a reason to die without a word.
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

EditingScope::EditingScope() {
  editing = ::tcgetattr(STDIN_FILENO, &terminal_before) == 0;
  struct sigaction action {};
  action.sa_handler = OnEndWhileEditing;
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

EditingScope::~EditingScope() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  editing = false;
}

}  // namespace dsv4::tools
