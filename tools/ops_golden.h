// Compares a kernel set, and the arithmetic around it, with the golden vectors of single kernels.
// Shared by `dsv4 ops golden` and by the tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "tests/support/compare.h"

namespace dsv4::tools {

struct GoldenResult {
  std::string file;  // "gemm"
  std::string name;  // "fp8_m1_n128_k128 y"
  test::Verdict verdict;
};

// Every case of every *.safetensors file of `folder`, which also holds kernels.json. A file without
// a rule here, a rule without its file and a malformed file are errors; a wrong value is a verdict.
Result<std::vector<GoldenResult>> RunKernelGolden(const kernels::Kernels& kernels,
                                                  const std::filesystem::path& folder);

}  // namespace dsv4::tools
