// What a step reads of a model, by kind.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/weights.h"
#include "ops/op_profile.h"

namespace dsv4::tools {

struct WeightBytes {
  int64_t fp8 = 0;
  int64_t fp4 = 0;
  int64_t bf16 = 0;
  int64_t f32 = 0;
  int64_t scales = 0;

  int64_t total() const { return fp8 + fp4 + bf16 + f32 + scales; }
  void Add(const WeightBytes& other, int64_t times);
};

// What every step of the main model reads: the parameters that `inspect` counts as active, but for
// the routed experts, and their scales. Not the embedding, of which each token takes one row.
WeightBytes CommonBytes(const model::ModelConfig& config, const model::ModelWeights& weights);
// One routed expert.
WeightBytes ExpertBytes(const model::ModelWeights& weights);

struct StepBytes {
  WeightBytes weights;
  int64_t kv_rows = 0;
  int64_t index_keys = 0;
  int64_t num_experts = 0;  // routed ones that were read, over all steps and layers

  int64_t total() const { return weights.total() + kv_rows + index_keys; }
};

// Of all steps together that `profile` was made of.
StepBytes BytesOf(const model::ModelConfig& config, const model::ModelWeights& weights,
                  const OpProfile& profile, int64_t num_steps);

}  // namespace dsv4::tools
