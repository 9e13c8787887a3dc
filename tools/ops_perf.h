// `dsv4 ops perf`: times operations and sets them against what the machine can do.
#pragma once

#include <regex>
#include <string>

#include "base/result.h"
#include "kernels/kernels.h"
#include "platform/thread_pool.h"

namespace dsv4::tools {

// The machine's limits with all threads of the pool.
struct MachineLimits {
  double read_bytes_per_s = 0;
  double flops = 0;  // of fp32 or bf16 with the set's vectors; products in integers may be faster
};
// Medians over less than a second; zeros where the system gives no memory to measure with.
MachineLimits MeasureLimits(ThreadPool& pool, const kernels::Kernels& set);

// One line per case on standard output: the median time of a call, GB/s, GFLOP/s and the shares of
// the limits, which are measured by turns with the case.
Status PrintPerf(ThreadPool& pool, const kernels::Kernels& set, const std::string& op,
                 const std::regex& pattern);

}  // namespace dsv4::tools
