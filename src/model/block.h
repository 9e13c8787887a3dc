// One transformer block on the hyper-connection state (docs/numerics.md, one block).
#pragma once

#include "model/step.h"
#include "model/weights.h"

namespace dsv4::model {

// h [T, hc, hidden] in place.
void RunBlock(const Step& step, const BlockWeights& weights, int32_t block, Bf16* h);

}  // namespace dsv4::model
