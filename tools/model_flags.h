// What every verb that computes with a model is told, and the operations it computes with.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "ops/ops.h"
#include "platform/preload.h"

namespace dsv4::tools {

struct ModelFlags {
  std::string model;
  int threads = 0;  // 0: DefaultThreads()
  bool preload = false;
  bool mlock = false;

  void AddTo(CLI::App* verb);
  int NumThreads() const;
};

// The operations of the kernel set that DSV4_KERNELS names, on NumThreads threads.
Result<std::unique_ptr<Ops>> StartOps(const ModelFlags& flags);

// Reads the weights of the folder into memory where the flags ask for it, with a progress bar
// unless `quiet`. To be called before memory is planned, and the result to be kept while the model
// runs: with --mlock it holds the pages.
Result<PreloadedFiles> PreloadWeights(const ModelFlags& flags, const std::filesystem::path& folder,
                                      bool quiet);

}  // namespace dsv4::tools
