// E4M3 rounding for the vectors of products (Vec) and of rows (RowVec). Include it inside a target
// region, after either.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

// The value of the E4M3 code nearest to x, ties to even, clamped to ±448; NaN stays as it is.
template <class V>
DSV4_INLINE typename V::F RoundToE4m3(typename V::F x) {
  using F = typename V::F;
  const F magnitude = V::Min(V::Abs(x), V::Set(kE4m3Max));
  // One unit in the last place of 2^14 is 2^-9, the step of the subnormals: the sum rounds.
  const F step = V::Set(0x1p14f);
  const F subnormal = V::Sub(V::Add(magnitude, step), step);
  const F rounded =
      V::IfLess(magnitude, V::Set(0x1p-6f), subnormal, V::template RoundMantissa<20>(magnitude));
  return V::IfNan(x, x, V::Or(rounded, V::SignOf(x)));
}

}  // namespace
}  // namespace dsv4::kernels::cpu
