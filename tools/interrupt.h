// Ctrl-C and SIGTERM as a flag, for verbs that must tidy up.
#pragma once

#include <atomic>

namespace dsv4::tools {

// Set by the first SIGINT or SIGTERM from the first call on; a second one ends the process at once.
const std::atomic<bool>& InterruptFlag();

}  // namespace dsv4::tools
