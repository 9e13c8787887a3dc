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
  double flops = 0;  // of the arithmetic that the set uses
};
MachineLimits MeasureLimits(ThreadPool& pool, const kernels::Kernels& set);

// One line per case on standard output: best and median time of the repeats, GB/s, GFLOP/s and the
// share of the limit that the case is bound by.
Status PrintPerf(ThreadPool& pool, const kernels::Kernels& set, const std::string& op,
                 const std::regex& pattern);

}  // namespace dsv4::tools
