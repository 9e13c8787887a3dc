// The indexer picks the entries a query of a ratio-4 layer attends to (docs/numerics.md, indexer).
#pragma once

#include "model/step.h"
#include "model/weights.h"

namespace dsv4::model {

// What each row may attend to: ascending entry indices.
struct Selection {
  // Per row: `count` indices at `indices`.
  struct Row {
    const int32_t* indices = nullptr;
    int64_t count = 0;
  };
  std::span<const Row> rows;
};

// qr [T, q_lora_rank] is the normed low-rank query, x the sublayer's input. Appends the block's
// index keys. The selection lives in the step's workspace.
Selection SelectEntries(const Step& step, const IndexerWeights& weights, int32_t block,
                        SublayerInput& qr, SublayerInput& x);

// For each run, pointers to the first row at `offset_in_page` in each of its pages; in the
// workspace.
std::span<const std::byte* const*> PagePointers(const Step& step, int64_t offset_in_page);

}  // namespace dsv4::model
