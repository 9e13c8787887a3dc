#include "engine/sampling_math.h"

#include <algorithm>
#include <cmath>

namespace dsv4 {
namespace {

constexpr float kMinTemperature = 1e-5f;

}  // namespace

void SoftmaxWithTemperature(std::span<const float> logits, float temperature,
                            std::span<float> probs) {
  const float divisor = std::max(temperature, kMinTemperature);
  const float max = logits[static_cast<size_t>(ArgMax(logits))] / divisor;
  // The sum over a large vocabulary is kept in double, so that its order does not show.
  double sum = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float exponent = logits[i] / divisor - max;
    probs[i] = std::isnan(exponent) ? 0.0f : std::exp(exponent);
    sum += probs[i];
  }
  const float total = static_cast<float>(sum);
  for (float& p : probs) p /= total;
}

int32_t ChooseByExponentials(std::span<const float> probs, std::span<const float> exponentials) {
  size_t best = 0;
  float best_value = 0.0f;
  for (size_t i = 0; i < probs.size(); ++i) {
    const float value = probs[i] / exponentials[i];
    if (value > best_value) {
      best = i;
      best_value = value;
    }
  }
  return static_cast<int32_t>(best);
}

int32_t ArgMax(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best] || (std::isnan(values[best]) && !std::isnan(values[i]))) best = i;
  }
  return static_cast<int32_t>(best);
}

}  // namespace dsv4
