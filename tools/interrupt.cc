#include "tools/interrupt.h"

#include <csignal>

namespace dsv4::tools {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set in a signal handler");

void Install(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

const std::atomic<bool>& InterruptFlag() {
  static const bool installed = [] {
    Install(SIGINT);
    Install(SIGTERM);
    Install(SIGHUP);
    return true;
  }();
  static_cast<void>(installed);
  return interrupted;
}

}  // namespace dsv4::tools
