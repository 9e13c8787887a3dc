// RMS norms, rotary embedding and the Hadamard transform.
#include <cmath>

#include "base/check.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"

namespace dsv4::kernels::ref {
namespace {

constexpr int32_t kMaxHadamard = 4096;

// The sum is taken in double (squares of bf16 values are exact there), so that the factor is the
// same whatever the order: it scales whole rows, and one last bit of it moves values over the
// borders of the quantisation that follows. Everything after the sum is fp32, as published.
float RowFactor(const Bf16* x, int64_t cols, float eps) {
  constexpr int64_t kSums = 8;
  double sums[kSums] = {};
  int64_t k = 0;
  for (; k + kSums <= cols; k += kSums) {
    for (int64_t i = 0; i < kSums; ++i) {
      const double value = ToFloat(x[k + i]);
      sums[i] += value * value;
    }
  }
  for (int64_t i = 0; k + i < cols; ++i) {
    const double value = ToFloat(x[k + i]);
    sums[i] += value * value;
  }
  const double sum =
      ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  return 1.0f / std::sqrt(static_cast<float>(sum / static_cast<double>(cols)) + eps);
}

}  // namespace

void RmsFactor(const Bf16* x, int64_t num_rows, int64_t cols, float eps, float* r) {
  for (int64_t row = 0; row < num_rows; ++row) r[row] = RowFactor(x + row * cols, cols, eps);
}

void RmsNorm(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps, Bf16* y) {
  for (int64_t row = 0; row < num_rows; ++row, x += cols, y += cols) {
    const float r = RowFactor(x, cols, eps);
    for (int64_t i = 0; i < cols; ++i) {
      const float normed = ToFloat(x[i]) * r;
      y[i] = ToBf16(w != nullptr ? normed * ToFloat(w[i]) : normed);
    }
  }
}

void Rope(const RopeArgs& args) {
  const int32_t num_pairs = args.width / 2;
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const float* const cos = args.cos + row * num_pairs;
    const float* const sin = args.sin + row * num_pairs;
    for (int32_t head = 0; head < args.num_heads; ++head) {
      Bf16* const x = args.x + row * args.row_stride + head * args.head_stride;
      for (int32_t i = 0; i < num_pairs; ++i) {
        const float s = args.inverse ? -sin[i] : sin[i];
        const float re = ToFloat(x[2 * i]);
        const float im = ToFloat(x[2 * i + 1]);
        x[2 * i] = ToBf16(re * cos[i] - im * s);
        x[2 * i + 1] = ToBf16(re * s + im * cos[i]);
      }
    }
  }
}

void Hadamard(Bf16* x, int64_t num_rows, int32_t n) {
  DSV4_CHECK(n >= 1 && (n & (n - 1)) == 0 && n <= kMaxHadamard, "Hadamard width {}", n);
  const float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(n)));
  float values[kMaxHadamard];
  for (int64_t row = 0; row < num_rows; ++row, x += n) {
    DecodeBf16(x, n, values);
    for (int32_t half = 1; half < n; half *= 2) {
      for (int32_t begin = 0; begin < n; begin += 2 * half) {
        for (int32_t i = begin; i < begin + half; ++i) {
          const float a = values[i];
          const float b = values[i + half];
          values[i] = a + b;
          values[i + half] = a - b;
        }
      }
    }
    for (int32_t i = 0; i < n; ++i) x[i] = ToBf16(values[i] * factor);
  }
}

}  // namespace dsv4::kernels::ref
