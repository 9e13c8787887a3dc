// Hyper-connections: the split of the mixes with its Sinkhorn iterations, and both mixing steps.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/ref/ref.h"

namespace dsv4::kernels::ref {
namespace {

constexpr int32_t kMaxHc = 16;

float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void SoftmaxRows(int32_t hc, float eps, float* comb) {
  for (int32_t j = 0; j < hc; ++j) {
    float* const row = comb + j * hc;
    const float max = *std::max_element(row, row + hc);
    float sum = 0.0f;
    for (int32_t k = 0; k < hc; ++k) sum += row[k] = std::exp(row[k] - max);
    for (int32_t k = 0; k < hc; ++k) row[k] = row[k] / sum + eps;
  }
}

void DivideByRowSums(int32_t hc, float eps, float* comb) {
  for (int32_t j = 0; j < hc; ++j) {
    float sum = 0.0f;
    for (int32_t k = 0; k < hc; ++k) sum += comb[j * hc + k];
    for (int32_t k = 0; k < hc; ++k) comb[j * hc + k] /= sum + eps;
  }
}

void DivideByColumnSums(int32_t hc, float eps, float* comb) {
  for (int32_t k = 0; k < hc; ++k) {
    float sum = 0.0f;
    for (int32_t j = 0; j < hc; ++j) sum += comb[j * hc + k];
    for (int32_t j = 0; j < hc; ++j) comb[j * hc + k] /= sum + eps;
  }
}

}  // namespace

void HcSplit(const HcSplitArgs& args) {
  const int32_t hc = args.hc;
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const float* const m = args.mixes + row * (2 + hc) * hc;
    float* const comb = args.comb + row * hc * hc;
    for (int32_t j = 0; j < hc; ++j) {
      args.pre[row * hc + j] = Sigmoid(m[j] * args.scale[0] + args.base[j]) + args.eps;
      args.post[row * hc + j] = 2.0f * Sigmoid(m[hc + j] * args.scale[1] + args.base[hc + j]);
    }
    for (int32_t i = 0; i < hc * hc; ++i) {
      comb[i] = m[2 * hc + i] * args.scale[2] + args.base[2 * hc + i];
    }
    SoftmaxRows(hc, args.eps, comb);
    DivideByColumnSums(hc, args.eps, comb);
    for (int32_t i = 1; i < args.sinkhorn_iters; ++i) {
      DivideByRowSums(hc, args.eps, comb);
      DivideByColumnSums(hc, args.eps, comb);
    }
  }
}

void HcHeadPre(const float* mixes, int64_t num_rows, int32_t hc, float scale, const float* base,
               float eps, float* pre) {
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int32_t j = 0; j < hc; ++j) {
      pre[row * hc + j] = Sigmoid(mixes[row * hc + j] * scale + base[j]) + eps;
    }
  }
}

void HcCombine(const Bf16* h, const float* pre, int64_t num_rows, int32_t hc, int64_t dim,
               Bf16* x) {
  for (int64_t row = 0; row < num_rows; ++row, h += hc * dim, pre += hc, x += dim) {
    for (int64_t i = 0; i < dim; ++i) {
      float sum = 0.0f;
      for (int32_t j = 0; j < hc; ++j) sum += pre[j] * ToFloat(h[j * dim + i]);
      x[i] = ToBf16(sum);
    }
  }
}

void HcPost(const Bf16* x, const float* post, const float* comb, int64_t num_rows, int32_t hc,
            int64_t dim, Bf16* h) {
  DSV4_CHECK(hc <= kMaxHc, "hc_mult {}", hc);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t i = 0; i < dim; ++i) {
      const float value = ToFloat(x[i]);
      float residual[kMaxHc];
      for (int32_t j = 0; j < hc; ++j) residual[j] = ToFloat(h[j * dim + i]);
      for (int32_t k = 0; k < hc; ++k) {
        float sum = post[k] * value;
        for (int32_t j = 0; j < hc; ++j) sum += comb[j * hc + k] * residual[j];
        h[k * dim + i] = ToBf16(sum);
      }
    }
    x += dim;
    post += hc;
    comb += hc * hc;
    h += hc * dim;
  }
}

}  // namespace dsv4::kernels::ref
