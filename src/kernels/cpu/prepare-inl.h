// Activations for products. Include it inside a target region,
// after weights-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

DSV4_INLINE Vec::Four LoadBf16Group(const Bf16* x, int64_t n, Vec::Watch* watch) {
  const auto* const p = reinterpret_cast<const std::byte*>(x);
  return n >= kGroup ? Vec::Bf16s(p) : DecodePart<WeightFormat::kBf16>(p, n, watch);
}

// The E4M3 value next to x, ties to even, clamped to ±448; NaN stays.
DSV4_INLINE Vec::F RoundToE4m3(Vec::F x) {
  const Vec::F magnitude = Vec::Min(Vec::Abs(x), Vec::Set(kE4m3Max));
  // One unit in the last place of 2^14 is 2^-9, the step of the subnormals: the sum rounds.
  const Vec::F shift = Vec::Set(0x1p14f);
  const Vec::F small = Vec::Sub(Vec::Add(magnitude, shift), shift);
  const Vec::F rounded =
      Vec::IfLess(magnitude, Vec::Set(0x1p-6f), small, Vec::template RoundMantissa<20>(magnitude));
  return Vec::IfNan(x, x, Vec::Or(rounded, Vec::SignOf(x)));
}

// amax of a block as BlockScale of ref takes it: NaN does not count.
DSV4_INLINE float BlockScaleOf(const Bf16* x, int64_t n, ActScale scale) {
  Vec::Watch watch = Vec::NoNan();
  Vec::F most = Vec::Set(1e-4f);
  for (int64_t k = 0; k < n; k += kGroup) {
    const Vec::Four four = LoadBf16Group(x + k, n - k, &watch);
    for (int i = 0; i < 4; ++i) most = Vec::Max(Vec::Abs(four.v[i]), most);
  }
  const float exact = Vec::MaxLane(most) * (1.0f / kE4m3Max);
  return scale == ActScale::kPowerOfTwo ? Pow2Ceil(exact) : exact;
}

// Calls emit(k, four, scale) for each group of a row: the values as they are, or E4M3 values still
// to be multiplied by `scale`. Blocks of kGroup columns or a multiple.
template <class Emit>
DSV4_INLINE void ForPreparedGroups(const PrepareArgs& args, const Bf16* x, Emit emit) {
  const bool quantized = args.activation == Activation::kQuantized;
  Vec::Watch watch = Vec::NoNan();
  float scale = 1.0f;
  for (int64_t k = 0; k < args.cols; k += kGroup) {
    Vec::Four four = LoadBf16Group(x + k, args.cols - k, &watch);
    if (quantized) {
      if (k % args.block == 0) {
        const int64_t left = args.cols - k;
        scale = BlockScaleOf(x + k, left < args.block ? left : args.block, args.scale);
      }
      const Vec::F divisor = Vec::Set(scale);
      for (int i = 0; i < 4; ++i) four.v[i] = RoundToE4m3(Vec::Div(four.v[i], divisor));
    }
    emit(k, four, scale);
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
