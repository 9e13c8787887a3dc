// What every subcommand shares: how it is registered and what its errors become.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace dsv4::tools {

// Exit codes, documented in README.md.
enum ExitCode {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitBadInput = 3,
  kExitDoesNotFit = 4
};

// Set by the subcommand that was chosen; main runs it after parsing.
using Selected = std::function<Status()>;

// Each lives in the file named after it: tools/encode.cc defines AddEncode. It adds a subcommand to
// `app` and, when chosen, sets *selected. Every one has a description and an example in its footer.
using AddCommand = void (*)(CLI::App& app, Selected* selected);

}  // namespace dsv4::tools
