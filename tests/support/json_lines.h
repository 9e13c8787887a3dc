// Golden files with one JSON value a line.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace dsv4::testing {

// The lines of tests/golden/`path`. A file that cannot be read ends the test program.
std::vector<json::Value> ReadJsonLines(const std::string& path);

}  // namespace dsv4::testing
