// The CPU backend: splits every operation over a thread pool and calls one kernel table.
#pragma once

#include <memory>

#include "base/result.h"
#include "kernels/kernels.h"
#include "ops/ops.h"

namespace dsv4 {

// `kernels` must outlive the result. num_threads at least 1.
std::unique_ptr<Ops> MakeCpuOps(const kernels::Kernels& kernels, int num_threads);

}  // namespace dsv4
