// Activations for products. Include it inside a target region,
// after weights-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

DSV4_INLINE Vec::Four LoadBf16Group(const Bf16* x, int64_t n, Vec::Watch* watch) {
  const auto* const p = reinterpret_cast<const std::byte*>(x);
  return n >= kGroup ? Vec::Bf16s(p) : DecodePart<WeightFormat::kBf16>(p, n, watch);
}

// amax of a block as BlockScale of ref takes it: NaN does not count.
DSV4_INLINE float BlockScaleOf(const Bf16* x, int64_t n, ActScale scale) {
  Vec::Watch watch = Vec::NoNan();
  Vec::F most = Vec::Set(ref::kE4m3MinAmax);
  for (int64_t k = 0; k < n; k += kGroup) {
    const Vec::Four four = LoadBf16Group(x + k, n - k, &watch);
    for (int i = 0; i < 4; ++i) most = Vec::Max(Vec::Abs(four.v[i]), most);
  }
  return ref::ScaleOfAmax(Vec::MaxLane(most), scale);
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
      for (int i = 0; i < 4; ++i) four.v[i] = RoundToE4m3<Vec>(Vec::Div(four.v[i], divisor));
    }
    emit(k, four, scale);
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
