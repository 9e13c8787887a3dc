#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dsv4 {
namespace {

// The (fractional) pair whose wave turns `turns` times over the original length.
double PairOfTurns(const Yarn& yarn, double turns, int32_t width, double base) {
  return width * std::log(yarn.original_seq_len / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(base));
}

}  // namespace

std::vector<float> RopeFrequencies(int32_t width, double base, const std::optional<Yarn>& yarn) {
  const int32_t num_pairs = width / 2;
  std::vector<float> frequencies(static_cast<size_t>(num_pairs));
  double low = 0.0;
  double high = 0.0;
  if (yarn) {
    low = std::max(std::floor(PairOfTurns(*yarn, yarn->beta_fast, width, base)), 0.0);
    high = std::min(std::ceil(PairOfTurns(*yarn, yarn->beta_slow, width, base)), width - 1.0);
    if (low == high) high += 0.001;
  }
  // In fp32 step by step, as the published code does: at a million tokens one last bit of a
  // frequency moves the angle by up to 0.06 rad.
  for (int32_t i = 0; i < num_pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(width);
    float frequency = 1.0f / std::pow(static_cast<float>(base), exponent);
    if (yarn) {
      const float ramp = std::clamp(
          (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
          1.0f);
      const float smooth = 1.0f - ramp;
      frequency =
          frequency / static_cast<float>(yarn->factor) * (1.0f - smooth) + frequency * smooth;
    }
    frequencies[static_cast<size_t>(i)] = frequency;
  }
  return frequencies;
}

void RopeAngles(std::span<const float> frequencies, int64_t position, float* cos, float* sin) {
  const float at = static_cast<float>(position);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double angle = at * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace dsv4
