// Deterministic synthetic checkpoints in the published layout, exact to the byte: the same preset,
// settings, seed and shard size give the same files on every machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "base/progress.h"
#include "base/result.h"
#include "checkpoint/synth_model.h"

namespace dsv4 {

struct SynthOptions {
  std::filesystem::path out = {};
  std::filesystem::path tokenizer = {};  // copied to tokenizer.json; none where empty
  uint64_t seed = 1;
  uint64_t shard_bytes = uint64_t{4} << 30;
  bool replace = false;  // an earlier checkpoint under that name
  // Set from outside (a signal handler) to stop; null where nobody will.
  const std::atomic<bool>* stop = nullptr;
};

// Writes the checkpoint as a stream in bounded memory, with one thread computing and the caller's
// writing. The folder appears under its name when it is complete; a failure leaves nothing.
Status WriteSynth(const SynthModel& model, const SynthOptions& options,
                  Progress& progress = NoProgress());

}  // namespace dsv4
