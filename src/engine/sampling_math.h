// The arithmetic of sampling, without state: softmax with temperature and the
// choice by Gumbel-max from given exponentials.
#pragma once

#include <cstdint>
#include <span>

namespace dsv4 {

// probs = softmax(logits / max(temperature, 1e-5)) in fp32; probs may be logits itself.
// A NaN logit counts as -inf; the largest logit must be finite.
void SoftmaxWithTemperature(std::span<const float> logits, float temperature,
                            std::span<float> probs);

// argmax of probs / exponentials, exponentials drawn from exponential(1), above 0; a word of
// probability 0 is never chosen. Ties: smaller index.
int32_t ChooseByExponentials(std::span<const float> probs, std::span<const float> exponentials);

// Index of the largest value, the choice at temperature 0. NaN never wins; ties: smaller index.
int32_t ArgMax(std::span<const float> values);

}  // namespace dsv4
