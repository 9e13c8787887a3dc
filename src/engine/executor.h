// Runs planned batches on a model. The engine decides, an executor obeys: everything it is told is
// plain data, so that it may be one model in this process, several ranks, or a script in a test.
#pragma once

#include <cstdint>

#include "model/batch.h"

namespace dsv4::engine {

struct ExecutorLimits {
  int64_t vocab_size = 0;
  int32_t eos_token_id = 0;
  int64_t max_positions = 0;  // tokens of one sequence that the model can hold
  int32_t max_rows = 0;       // of one batch
  int32_t num_slots = 0;      // at most max_rows
  int32_t num_pages = 0;
  int32_t num_snapshots = 0;  // places for copies of a slot
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;

  // Advances the slots of the batch; logits [batch.logit_rows, vocab_size].
  virtual void Run(const model::Batch& batch, float* logits) = 0;
  // Copies slot `slot` to snapshot place `snapshot`: the state of its sequence but for the pages.
  virtual void Save(int32_t slot, int32_t snapshot) = 0;
  // The reverse: the slot is again what it was when it was saved.
  virtual void Restore(int32_t snapshot, int32_t slot) = 0;
};

}  // namespace dsv4::engine
