// One step's work as plain arrays: what the engine plans and every rank runs.
#pragma once

#include <cstdint>
#include <span>

namespace dsv4::model {

// Consecutive rows of one sequence. A batch holds at most one run per slot.
struct SequenceRun {
  int32_t slot = 0;      // of the KV cache: the sequence's state
  int64_t start = 0;     // position of the first row; the state holds exactly the tokens before
  int32_t num_rows = 0;  // at least 1
  // Pages of the sequence in order; page i holds the entries of tokens [128 i, 128 (i + 1)).
  // At least KvLayout::PagesFor(start + num_rows) of them.
  std::span<const int32_t> pages;
};

struct Batch {
  std::span<const int32_t> tokens;  // [num_rows], run after run
  std::span<const SequenceRun> runs;
  std::span<const int32_t> logit_rows;  // indices into tokens, ascending

  int64_t num_rows() const { return static_cast<int64_t>(tokens.size()); }
};

}  // namespace dsv4::model
