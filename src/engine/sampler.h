// From a row of logits to a token.
//
// * temperature 0: the largest logit, among equals the smallest id.
// * else p = softmax(logits / max(temperature, 1e-5)) in fp32, then the nucleus: tokens by
// descending
//   p (equal ones by ascending id), as many as make a sum of at least top_p; then the token with
//   the largest p / E over the nucleus, E exponential(1) (the Gumbel-max trick).
// * E of token t is a function of (seed, position, t) alone, so that a text does not depend on what
// else
//   runs, on chunks, or on having been paused.
// * log-probabilities are those of softmax(logits), without temperature and nucleus.
// All sums run in ascending order of ids, in fp64 where not said otherwise.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/request.h"

namespace dsv4::engine {

struct Sampled {
  int32_t token = 0;
  float logprob = 0;
  std::vector<TokenLogprob> top;
};

// The exponential(1) number of `token` at `position`: positive and finite.
float SamplingNoise(uint64_t seed, int64_t position, int32_t token);

class Sampler {
 public:
  // `position`: where the sampled token will stand in its sequence. Logits must not be empty; NaN
  // is never chosen. An error (kFailed) where the largest logit is not finite.
  Result<Sampled> Sample(std::span<const float> logits, const SamplingParams& params,
                         int64_t position);

 private:
  int32_t Draw(std::span<const float> logits, const SamplingParams& params, int64_t position);
  // Sets the probabilities outside the nucleus to 0.
  void KeepNucleus(float top_p);

  // Scratch, kept to avoid allocation in a step.
  std::vector<float> probs_;
  std::vector<float> noise_;
  std::vector<int32_t> order_;
};

}  // namespace dsv4::engine
