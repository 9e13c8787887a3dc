// The published layout to one file a rank of a model-parallel run.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "base/progress.h"
#include "base/result.h"

namespace dsv4 {

struct ConvertOptions {
  std::filesystem::path source = {};
  std::filesystem::path out = {};
  // Routed experts of a layer; 0: as config.json says, which must agree where both do.
  int64_t num_experts = 0;
  int world = 1;
  // Experts become FP8, else they stay as they are.
  bool fp8_experts = false;
  bool replace = false;  // an earlier checkpoint under that name
  // Set from outside (a signal handler) to stop; null where nobody will.
  const std::atomic<bool>* stop = nullptr;
};

// Writes model{rank}-mp{world}.safetensors for every rank, and copies the tokenizer files,
// generation_config.json and config.json (with the experts' new type) where they are present.
// A target that is the source, lies in it or holds any of its files is kUsage. Streams; the folder
// appears under its name when it is complete, and a failure leaves nothing.
Status ConvertCheckpoint(const ConvertOptions& options, Progress& progress = NoProgress());

}  // namespace dsv4
