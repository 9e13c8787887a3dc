// What `dsv4 bench` measured, as a table for people and as JSON for programs.
#pragma once

#include <string>

#include "tools/bench_run.h"

namespace dsv4::tools {

std::string BenchText(const BenchReport& report);
// One object; docs/performance.md lists its fields. Rates and shares of what was not measured (a
// prompt of 0 tokens) are null. Operations are those of a decode step; "products" is whether their
// time counts as products.
std::string BenchJson(const BenchReport& report);

}  // namespace dsv4::tools
