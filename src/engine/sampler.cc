#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/mix.h"
#include "engine/sampling_math.h"

namespace dsv4::engine {
namespace {

uint64_t PositionKey(uint64_t seed, int64_t position) {
  return Mix64(Mix64(seed + kMixStep) + static_cast<uint64_t>(position));
}

float NoiseOf(uint64_t position_key, int32_t token) {
  const uint64_t bits = Mix64(position_key + kMixStep * (static_cast<uint64_t>(token) + 1));
  // 24 bits, exact in fp32, in (0, 1): neither end, so that the logarithm is finite and not 0.
  const float uniform = (static_cast<float>(bits >> 41) + 0.5f) * 0x1p-23f;
  return -std::log(uniform);
}

// Indices by descending value, among equals ascending; NaN last. Only the first `count` are in
// order.
void OrderByValue(std::span<const float> values, size_t count, std::vector<int32_t>& order) {
  order.resize(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int32_t index) {
    const float found = values[static_cast<size_t>(index)];
    return std::isnan(found) ? -std::numeric_limits<float>::infinity() : found;
  };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(order.begin(), end, order.end(), [&](int32_t a, int32_t b) {
    const float x = value(a);
    const float y = value(b);
    return x != y ? x > y : a < b;
  });
}

// log of the sum of exp(values): fp64, in ascending order of indices; NaN counts as -inf.
double LogSumExp(std::span<const float> values) {
  const double largest = values[static_cast<size_t>(ArgMax(values))];
  double sum = 0;
  for (const float value : values) {
    if (!std::isnan(value)) sum += std::exp(value - largest);
  }
  return largest + std::log(sum);
}

std::vector<TokenLogprob> TopLogprobs(std::span<const float> logits, double log_sum, int32_t count,
                                      std::vector<int32_t>& order) {
  const size_t kept = std::min(logits.size(), static_cast<size_t>(std::max(count, 0)));
  OrderByValue(logits, kept, order);
  std::vector<TokenLogprob> top;
  for (size_t i = 0; i < kept; ++i) {
    const float logit = logits[static_cast<size_t>(order[i])];
    top.push_back({order[i], static_cast<float>(logit - log_sum)});
  }
  return top;
}

std::unexpected<Error> NoneFinite(std::span<const float> logits, int64_t position) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto num_nan = std::ranges::count_if(logits, [](float x) { return std::isnan(x); });
  return Failed(
      "token {}: expected a largest logit that is finite, found {} NaN, {} inf and {} -inf among "
      "{} logits",
      position, num_nan, std::ranges::count(logits, kInfinity),
      std::ranges::count(logits, -kInfinity), logits.size());
}

}  // namespace

float SamplingNoise(uint64_t seed, int64_t position, int32_t token) {
  return NoiseOf(PositionKey(seed, position), token);
}

Result<Sampled> Sampler::Sample(std::span<const float> logits, const SamplingParams& params,
                                int64_t position) {
  const int32_t most_likely = ArgMax(logits);
  if (!std::isfinite(logits[static_cast<size_t>(most_likely)])) return NoneFinite(logits, position);
  Sampled sampled;
  sampled.token = params.temperature <= 0 ? most_likely : Draw(logits, params, position);
  if (params.num_top_logprobs) {
    const double log_sum = LogSumExp(logits);
    const float chosen = logits[static_cast<size_t>(sampled.token)];
    sampled.logprob = static_cast<float>(chosen - log_sum);
    sampled.top = TopLogprobs(logits, log_sum, *params.num_top_logprobs, order_);
  }
  return sampled;
}

int32_t Sampler::Draw(std::span<const float> logits, const SamplingParams& params,
                      int64_t position) {
  probs_.resize(logits.size());
  noise_.resize(logits.size());
  SoftmaxWithTemperature(logits, params.temperature, probs_);
  if (params.top_p < 1) KeepNucleus(params.top_p);
  const uint64_t key = PositionKey(params.seed, position);
  for (size_t i = 0; i < noise_.size(); ++i) {
    noise_[i] = probs_[i] > 0 ? NoiseOf(key, static_cast<int32_t>(i)) : 1;
  }
  return ChooseByExponentials(probs_, noise_);
}

void Sampler::KeepNucleus(float top_p) {
  // What lies at or below this share sums to at most 1 - top_p: none of it is in the nucleus, and
  // it need not be sorted.
  const float floor = (1 - top_p) / static_cast<float>(probs_.size());
  size_t candidates = 0;
  for (const float prob : probs_) candidates += prob > floor ? 1 : 0;
  candidates = std::max<size_t>(candidates, 1);
  OrderByValue(probs_, candidates, order_);
  double sum = 0;
  size_t kept = 0;
  while (kept < candidates && sum < top_p) {
    sum += probs_[static_cast<size_t>(order_[kept++])];
  }
  for (size_t i = kept; i < order_.size(); ++i) probs_[static_cast<size_t>(order_[i])] = 0;
}

}  // namespace dsv4::engine
