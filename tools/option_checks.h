// Checks of numbers on the command line. CLI11's own take -1 for a large unsigned number, 010 for
// eight, a number that is too large for the largest one, and let NaN through every range.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace dsv4::tools {

// For ->transform: decimal digits only; leading zeros are taken off.
CLI::Validator WholeNumber(uint64_t least, uint64_t most);
// As above, without a limit but what an int64_t holds.
CLI::Validator WholeNumberFrom(uint64_t least);
// For ->check: any text but the empty one.
CLI::Validator NotEmpty();
// A number in [least, most], or in (least, most] where `open`, also as a float.
CLI::Validator RealNumber(double least, double most, bool open = false);

}  // namespace dsv4::tools
