// One JSON value a line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace dsv4::testing {

// The lines of tests/golden/`path`. A file that cannot be read ends the test program.
std::vector<json::Value> ReadJsonLines(const std::string& path);

// A line that is no JSON ends the test program; `what` names the text.
std::vector<json::Value> ParseJsonLines(std::string_view text, std::string_view what = "text");

}  // namespace dsv4::testing
