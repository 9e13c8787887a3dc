// Compressed entries: learned pooling of every `ratio` tokens (docs/numerics.md, compressor).
#pragma once

#include "model/step.h"
#include "model/weights.h"

namespace dsv4::model {

// The entries that a step completes, run after run.
struct NewEntries {
  Bf16* values = nullptr;  // [count, width], after norm and rotary
  int64_t count = 0;
  std::span<const int64_t> run_begin;    // per run: its first entry here
  std::span<const int64_t> first_entry;  // per run: the sequence's index of that entry

  int64_t run_end(size_t run) const {
    return run + 1 < run_begin.size() ? run_begin[run + 1] : count;
  }
};

// Raw rows of the batch from the sublayer's input, entries completed by them, and the carried rows
// brought up to date. Results live in the step's workspace.
NewEntries Compress(const Step& step, const CompressorWeights& weights,
                    const KvLayout::Carry& carry, SublayerInput& x);

// Copies packed rows of the new entries to their places in the sequences' pages.
void StoreEntries(const Step& step, const NewEntries& entries, int32_t ratio,
                  int64_t offset_in_page, int64_t row_bytes, const std::byte* packed);

}  // namespace dsv4::model
