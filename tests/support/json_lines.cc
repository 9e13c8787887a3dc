#include "tests/support/json_lines.h"

#include "base/check.h"
#include "base/read_file.h"

namespace dsv4::testing {

std::vector<json::Value> ReadJsonLines(const std::string& path) {
  const auto text = ReadFile(std::string(DSV4_TEST_DATA) + "/" + path);
  DSV4_CHECK(text.has_value(), "{}", text.error().message);
  return ParseJsonLines(*text, path);
}

std::vector<json::Value> ParseJsonLines(std::string_view text, std::string_view what) {
  std::vector<json::Value> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    auto value = json::Parse(line);
    DSV4_CHECK(value.has_value(), "{} line {}: {}", what, lines.size() + 1, value.error().message);
    lines.push_back(std::move(*value));
  }
  return lines;
}

}  // namespace dsv4::testing
