#include "tests/support/json_lines.h"

#include <fstream>

#include "base/check.h"

namespace dsv4::testing {

std::vector<json::Value> ReadJsonLines(const std::string& path) {
  std::ifstream file(std::string(DSV4_TEST_DATA) + "/" + path);
  DSV4_CHECK(file.is_open(), "{} cannot be opened", path);
  std::vector<json::Value> lines;
  for (std::string line; std::getline(file, line);) {
    auto value = json::Parse(line);
    DSV4_CHECK(value.has_value(), "{} line {}: {}", path, lines.size() + 1, value.error().message);
    lines.push_back(std::move(*value));
  }
  return lines;
}

}  // namespace dsv4::testing
