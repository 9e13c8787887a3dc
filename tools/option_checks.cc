#include "tools/option_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <string>

namespace dsv4::tools {

namespace {

// `expected` is what a message says of the number, `range` what the help does.
CLI::Validator WholeNumberWithin(uint64_t least, uint64_t most, const std::string& expected,
                                 const std::string& range) {
  const auto check = [=](std::string& text) -> std::string {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < least || number > most) {
      return fmt::format("expected a whole number {}, found \"{}\"", expected, text);
    }
    text = std::to_string(number);
    return {};
  };
  return CLI::Validator(check, range);
}

}  // namespace

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return WholeNumberWithin(least, most, "from " + range, range);
}

CLI::Validator WholeNumberFrom(uint64_t least) {
  const std::string range = fmt::format("at least {}", least);
  return WholeNumberWithin(least, std::numeric_limits<int64_t>::max(),
                           "of " + range + ", below 2^63", range);
}

CLI::Validator NotEmpty() {
  const auto check = [](std::string& text) -> std::string {
    return text.empty() ? "expected a text, found an empty one" : "";
  };
  return CLI::Validator(check, "");
}

CLI::Validator RealNumber(double least, double most, bool open) {
  const std::string range = fmt::format("{}{} to {}", open ? "above " : "", least, most);
  const auto check = [=](std::string& text) -> std::string {
    double number = 0;
    const bool read = CLI::detail::lexical_cast(text, number);
    const double kept = static_cast<double>(static_cast<float>(number));
    if (read && number >= least && number <= most && (!open || kept > least)) return {};
    return fmt::format("expected a number from {}, found \"{}\"", range, text);
  };
  return CLI::Validator(check, range);
}

}  // namespace dsv4::tools
