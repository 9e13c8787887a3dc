// Shared-KV attention over the sliding window and the compressed entries (docs/numerics.md,
// attention).
#pragma once

#include "model/step.h"
#include "model/weights.h"

namespace dsv4::model {

// y [T, hidden] = attention of block `block` on the normed x [T, hidden]; appends the block's
// entries and advances its window.
void Attention(const Step& step, const AttentionWeights& weights, int32_t block, const Bf16* x,
               Bf16* y);

}  // namespace dsv4::model
