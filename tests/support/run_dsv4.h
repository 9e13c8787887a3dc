// Runs the program under test. For tests that are built with DSV4_BINARY.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/run_program.h"

namespace dsv4::testing {

inline ProgramResult RunDsv4(std::vector<std::string> arguments, std::string_view input = {}) {
  arguments.insert(arguments.begin(), DSV4_BINARY);
  return RunProgram(std::move(arguments), input);
}

}  // namespace dsv4::testing
