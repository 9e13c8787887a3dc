// Hyper-connections: the bits of kernels/ref/hyper_connection.cc.
// Include it inside a target region, after row_loops-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int32_t kUsualHc = 4;

void HcCombine(const Bf16* h, const float* pre, int64_t num_rows, int32_t hc, int64_t dim,
               Bf16* x) {
  for (int64_t row = 0; row < num_rows; ++row, h += hc * dim, pre += hc, x += dim) {
    for (int64_t i = 0; i < dim; i += kLanes) {
      const int64_t n = LanesLeft(i, dim);
      F sum = RowVec::Zero();
      for (int32_t j = 0; j < hc; ++j) {
        sum = RowVec::Add(sum, RowVec::Mul(RowVec::Set(pre[j]), LoadRow(h + j * dim + i, n)));
      }
      StoreRow(sum, x + i, n);
    }
  }
}

// One vector of every copy.
DSV4_INLINE void PostVector(F x, const float* post, const float* comb, int64_t dim, int64_t n,
                            Bf16* h) {
  F residual[kUsualHc];
  for (int j = 0; j < kUsualHc; ++j) residual[j] = LoadRow(h + j * dim, n);
  for (int k = 0; k < kUsualHc; ++k) {
    F sum = RowVec::Mul(RowVec::Set(post[k]), x);
    for (int j = 0; j < kUsualHc; ++j) {
      sum = RowVec::Add(sum, RowVec::Mul(RowVec::Set(comb[j * kUsualHc + k]), residual[j]));
    }
    StoreRow(sum, h + k * dim, n);
  }
}

void HcPost(const Bf16* x, const float* post, const float* comb, int64_t num_rows, int32_t hc,
            int64_t dim, Bf16* h) {
  if (hc != kUsualHc) {
    ref::HcPost(x, post, comb, num_rows, hc, dim, h);
    return;
  }
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t i = 0; i < dim; i += kLanes) {
      const int64_t n = LanesLeft(i, dim);
      PostVector(LoadRow(x + i, n), post, comb, dim, n, h + i);
    }
    x += dim;
    post += hc;
    comb += hc * hc;
    h += hc * dim;
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
