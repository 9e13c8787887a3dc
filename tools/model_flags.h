// What every verb that computes with a model is told, and the operations it computes with.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "base/result.h"
#include "ops/ops.h"

namespace dsv4::tools {

struct ModelFlags {
  std::string model;
  int threads = 0;  // 0: as many as the machine has

  void AddTo(CLI::App* verb);
  int NumThreads() const;
};

// The operations of the kernel set that DSV4_KERNELS names, on NumThreads threads.
Result<std::unique_ptr<Ops>> StartOps(const ModelFlags& flags);

}  // namespace dsv4::tools
