// A sequence: a request being answered, and what it holds of the KV cache.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/request.h"

namespace dsv4::engine {

// A copy of the slot when it held exactly the first `position` tokens.
struct Snapshot {
  int64_t position = 0;
  int32_t place = 0;
};

// The state after the first num_computed tokens of some text. Holds its slot and pages.
struct SequenceState {
  static constexpr int32_t kNoSlot = -1;

  int32_t slot = kNoSlot;
  int64_t num_computed = 0;
  // Page i: entries of tokens [128 i, 128 (i + 1)). May reach beyond num_computed: entries that are
  // written again before anything reads them.
  std::vector<int32_t> pages;
  std::vector<Snapshot> snapshots;  // ascending positions, none beyond num_computed
};

struct Sequence {
  enum class Phase { kWaiting, kRunning };

  Request request;
  uint64_t arrival = 0;         // order of submission
  std::vector<int32_t> tokens;  // the prompt, then what was sampled
  Phase phase = Phase::kWaiting;
  SequenceState state;                // empty while waiting
  std::optional<int64_t> num_cached;  // set at the first admission
  bool planned = false;               // has rows in the plan being made or run

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t prompt_length() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t num_sampled() const { return length() - prompt_length(); }
  int64_t num_uncomputed() const { return length() - state.num_computed; }
};

}  // namespace dsv4::engine
