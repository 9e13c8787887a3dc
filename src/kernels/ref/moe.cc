// Router and SwiGLU of the feed-forward part.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/ref/ref.h"

namespace dsv4::kernels::ref {
namespace {

// In double, rounded once: the choice between near ties should not hang on the library's logf.
void Scores(const RouteArgs& args) {
  const float* const z = args.z;
  const int32_t n = args.num_experts;
  if (args.function == ScoreFunction::kSoftmax) {
    const double max = *std::max_element(z, z + n);
    double sum = 0.0;
    for (int32_t i = 0; i < n; ++i) sum += std::exp(z[i] - max);
    for (int32_t i = 0; i < n; ++i) args.scores[i] = static_cast<float>(std::exp(z[i] - max) / sum);
    return;
  }
  for (int32_t i = 0; i < n; ++i) {
    const double value = z[i];
    const double softplus = std::max(value, 0.0) + std::log1p(std::exp(-std::fabs(value)));
    args.scores[i] =
        static_cast<float>(args.function == ScoreFunction::kSigmoid ? 1.0 / (1.0 + std::exp(-value))
                                                                    : std::sqrt(softplus));
  }
}

// NaN sorts last, so that a broken token still gets distinct experts.
float SelectionKey(const RouteArgs& args, int32_t i) {
  const float key = args.bias != nullptr ? args.scores[i] + args.bias[i] : args.scores[i];
  return std::isnan(key) ? -std::numeric_limits<float>::infinity() : key;
}

// The best expert that comes after (key, idx) in the order of falling key, then rising index.
int32_t NextBest(const RouteArgs& args, float last_key, int32_t last_idx) {
  int32_t best = -1;
  float best_key = 0.0f;
  for (int32_t i = 0; i < args.num_experts; ++i) {
    const float key = SelectionKey(args, i);
    const bool after = key < last_key || (key == last_key && i > last_idx);
    if (after && (best < 0 || key > best_key)) {
      best = i;
      best_key = key;
    }
  }
  return best;
}

}  // namespace

void Route(const RouteArgs& args) {
  DSV4_CHECK(args.num_chosen <= args.num_experts, "{} experts of {}", args.num_chosen,
             args.num_experts);
  Scores(args);
  float last_key = std::numeric_limits<float>::infinity();
  int32_t last_idx = -1;
  float sum = 0.0f;
  for (int32_t i = 0; i < args.num_chosen; ++i) {
    if (args.fixed != nullptr) {
      args.chosen[i] = static_cast<int32_t>(args.fixed[i]);
    } else {
      last_idx = NextBest(args, last_key, last_idx);
      last_key = SelectionKey(args, last_idx);
      args.chosen[i] = last_idx;
    }
    args.weights[i] = args.scores[args.chosen[i]];
    sum += args.weights[i];
  }
  for (int32_t i = 0; i < args.num_chosen; ++i) {
    if (args.function != ScoreFunction::kSoftmax) args.weights[i] /= sum;
    args.weights[i] *= args.route_scale;
  }
}

void Swiglu(const SwigluArgs& args) {
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const float weight = args.weights != nullptr ? args.weights[row] : 1.0f;
    for (int64_t i = row * args.width; i < (row + 1) * args.width; ++i) {
      float g = ToFloat(args.gate[i]);
      float u = ToFloat(args.up[i]);
      if (args.limit > 0.0f) {
        g = std::min(g, args.limit);
        u = std::clamp(u, -args.limit, args.limit);
      }
      const float silu = g / (1.0f + std::exp(-g));
      args.output[i] = ToBf16(weight * (silu * u));
    }
  }
}

}  // namespace dsv4::kernels::ref
