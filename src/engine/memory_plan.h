// How much of the KV cache there is to be: from what is wanted and what memory there is.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/config.h"

namespace dsv4::engine {

struct MemoryWish {
  int32_t num_sequences = 1;  // at once; fewer where they do not fit
  int64_t context = 0;        // tokens of one sequence; 0: as many as model and memory allow
  int64_t total_tokens = 0;   // of all sequences together; 0: num_sequences whole contexts
  int32_t num_snapshots = 0;  // fewer where they do not fit
  int64_t budget_bytes = 0;
};

struct MemoryPlan {
  int64_t context = 0;
  int32_t num_slots = 0;
  int32_t num_pages = 0;  // one whole context at least
  int32_t num_snapshots = 0;
  int64_t bytes = 0;  // of all of it, once all is touched
};

// kDoesNotFit, with both numbers: one sequence of the wanted context needs more than the budget, or
// the context is more than the model's.
Result<MemoryPlan> PlanMemory(const model::ModelConfig& config, const MemoryWish& wish);

}  // namespace dsv4::engine
