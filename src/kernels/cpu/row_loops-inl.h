// Loops over rows of any width in vectors, and exp. Include it inside a target region, after the
// set's vec_rows_*.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

using F = RowVec::F;
constexpr int64_t kLanes = RowVec::kLanes;

// n is kLanes but for the last vector of a row.
DSV4_INLINE F LoadRow(const Bf16* p, int64_t n) {
  return n == kLanes ? RowVec::LoadBf16(p) : RowVec::LoadBf16Part(p, n);
}
DSV4_INLINE F LoadRow(const float* p, int64_t n) {
  return n == kLanes ? RowVec::Load(p) : RowVec::LoadPart(p, n);
}
DSV4_INLINE void StoreRow(F x, Bf16* p, int64_t n) {
  if (n == kLanes) {
    RowVec::StoreBf16(x, p);
  } else {
    RowVec::StoreBf16Part(x, p, n);
  }
}

DSV4_INLINE int64_t LanesLeft(int64_t i, int64_t n) { return n - i < kLanes ? n - i : kLanes; }

DSV4_INLINE int64_t RoundUpTo(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// To within 1.1 units in the last place, rounded once more among the subnormals; overflows to
// infinity, NaN stays.
DSV4_INLINE F Exp(F x) {
  // Beyond these the result is 0 or infinity whatever x is. Min and Max give x where it is NaN.
  x = RowVec::Max(RowVec::Set(-104.0f), RowVec::Min(RowVec::Set(89.0f), x));
  const F n = RowVec::RoundToInteger(RowVec::Mul(x, RowVec::Set(0x1.715476p+0f)));
  F r = RowVec::Fma(n, RowVec::Set(-0x1.62e43p-1f), x);  // ln 2 in two parts
  r = RowVec::Fma(n, RowVec::Set(0x1.05c61p-29f), r);
  // (exp(r) - 1 - r) / r^2, interpolated at Chebyshev's points of ±ln(2)/2.
  F p = RowVec::Set(0x1.6d113cp-10f);
  p = RowVec::Fma(p, r, RowVec::Set(0x1.120ba2p-7f));
  p = RowVec::Fma(p, r, RowVec::Set(0x1.55551ap-5f));
  p = RowVec::Fma(p, r, RowVec::Set(0x1.5554dcp-3f));
  p = RowVec::Fma(p, r, RowVec::Set(0.5f));
  p = RowVec::Fma(RowVec::Mul(r, r), p, r);
  return RowVec::TimesPowerOfTwo(RowVec::Add(p, RowVec::Set(1.0f)), n);
}

}  // namespace
}  // namespace dsv4::kernels::cpu
