// The cases of `dsv4 ops check` and `dsv4 ops perf`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/support/compare.h"

namespace dsv4::tools {

// A kernel set against ref.
struct CheckCase {
  std::string op;
  std::string name;
  std::function<test::Verdict(const kernels::Kernels&)> run;
};

// One measured call of an operation, cut along `items` for threads.
struct PerfCase {
  std::string op;
  std::string name;
  int64_t items = 0;  // what `run` may be cut along
  int64_t grain = 1;
  double bytes = 0;  // read at least, all items
  double flops = 0;
  // Makes inputs for a set; the result computes items [begin, end) of repeat number i.
  std::function<std::function<void(int64_t i, int64_t begin, int64_t end)>(const kernels::Kernels&)>
      prepare;
};

std::vector<CheckCase> ProductChecks();
std::vector<PerfCase> ProductPerfCases();

}  // namespace dsv4::tools
