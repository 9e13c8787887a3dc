#include "tools/interrupt.h"

namespace dsv4::tools {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

}  // namespace

InterruptScope::InterruptScope() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], &action, &before_[i]);
    // nohup means it.
    if (kSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  }
}

InterruptScope::~InterruptScope() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

const std::atomic<bool>& InterruptScope::flag() const { return interrupted; }

const std::atomic<bool>& InterruptFlag() {
  static const auto* const scope = new InterruptScope;  // never left
  return scope->flag();
}

}  // namespace dsv4::tools
