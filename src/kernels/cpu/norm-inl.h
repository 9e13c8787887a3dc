// RMS norms, rotary embedding and the Hadamard transform: the bits of kernels/ref/norm.cc.
// Include it inside a target region, after row_loops-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

// Squares summed in double in the order of the reference: element k in sum k mod 8.
DSV4_INLINE float RowFactor(const Bf16* x, int64_t cols, float eps) {
  RowVec::Squares squares;
  for (int64_t i = 0; i < cols; i += kLanes) squares.Add(LoadRow(x + i, LanesLeft(i, cols)));
  double s[8];
  squares.Get(s);
  const double sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  return 1.0f / std::sqrt(static_cast<float>(sum / static_cast<double>(cols)) + eps);
}

void RmsFactor(const Bf16* x, int64_t num_rows, int64_t cols, float eps, float* r) {
  for (int64_t row = 0; row < num_rows; ++row) r[row] = RowFactor(x + row * cols, cols, eps);
}

void RmsNorm(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps, Bf16* y) {
  for (int64_t row = 0; row < num_rows; ++row, x += cols, y += cols) {
    const F r = RowVec::Set(RowFactor(x, cols, eps));
    for (int64_t i = 0; i < cols; i += kLanes) {
      const int64_t n = LanesLeft(i, cols);
      F normed = RowVec::Mul(LoadRow(x + i, n), r);
      if (w != nullptr) normed = RowVec::Mul(normed, LoadRow(w + i, n));
      StoreRow(normed, y + i, n);
    }
  }
}

void Rope(const RopeArgs& args) {
  const int64_t num_pairs = args.width / 2;
  // Lanes are re, im, re, im, …: re takes -sin times im, im takes sin times re.
  const F odd = RowVec::UpperSigns<1>();
  const F signs = args.inverse ? odd : RowVec::Negate(odd);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    for (int64_t i = 0; i < args.width; i += kLanes) {
      const int64_t n = LanesLeft(i, args.width);
      const int64_t at = row * num_pairs + i / 2;
      const F cos = RowVec::Doubled(args.cos + at, n / 2);
      const F sin = RowVec::Xor(RowVec::Doubled(args.sin + at, n / 2), signs);
      Bf16* x = args.x + row * args.row_stride + i;
      for (int32_t head = 0; head < args.num_heads; ++head, x += args.head_stride) {
        const F value = LoadRow(x, n);
        const F partner = RowVec::ExchangeLanes<1>(value);
        StoreRow(RowVec::Add(RowVec::Mul(value, cos), RowVec::Mul(partner, sin)), x, n);
      }
    }
  }
}

template <int half>
DSV4_INLINE F ButterflyInLanes(F x) {
  return RowVec::Add(RowVec::ExchangeLanes<half>(x), RowVec::Xor(x, RowVec::UpperSigns<half>()));
}

// Values of n >= kLanes, a power of two.
DSV4_INLINE void Butterflies(float* values, int32_t n) {
  for (int32_t half = static_cast<int32_t>(kLanes); half < n; half *= 2) {
    for (int32_t begin = 0; begin < n; begin += 2 * half) {
      for (float* p = values + begin; p < values + begin + half; p += kLanes) {
        const F a = RowVec::Load(p);
        const F b = RowVec::Load(p + half);
        RowVec::Store(RowVec::Add(a, b), p);
        RowVec::Store(RowVec::Sub(a, b), p + half);
      }
    }
  }
}

void Hadamard(Bf16* x, int64_t num_rows, int32_t n) {
  constexpr int32_t kMaxHadamard = 4096;
  if (n < kLanes || n > kMaxHadamard) {
    ref::Hadamard(x, num_rows, n);
    return;
  }
  const F factor = RowVec::Set(static_cast<float>(1.0 / std::sqrt(static_cast<double>(n))));
  alignas(64) float values[kMaxHadamard];
  for (int64_t row = 0; row < num_rows; ++row, x += n) {
    for (int32_t i = 0; i < n; i += kLanes) {
      F v = ButterflyInLanes<1>(RowVec::LoadBf16(x + i));
      v = ButterflyInLanes<4>(ButterflyInLanes<2>(v));
      if constexpr (kLanes == 16) v = ButterflyInLanes<8>(v);
      RowVec::Store(v, values + i);
    }
    Butterflies(values, n);
    for (int32_t i = 0; i < n; i += kLanes) {
      RowVec::StoreBf16(RowVec::Mul(RowVec::Load(values + i), factor), x + i);
    }
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
