// Mixture of experts (docs/numerics.md, feed-forward).
#pragma once

#include "model/step.h"
#include "model/weights.h"

namespace dsv4::model {

// y [T, hidden] = routed experts plus the shared one on the normed x [T, hidden].
void Moe(const Step& step, const MoeWeights& weights, int32_t block, const Bf16* x, Bf16* y);

}  // namespace dsv4::model
