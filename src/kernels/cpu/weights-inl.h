// How the products of a set see weights: groups of Vec::kGroup columns decoded to four vectors, and
// the scale of a half group. Include it inside a target region, after the set's vec_*.h.
//
// Every product of a set is the same sum, whatever its form: lane i of an output takes
// fma(x, weight * scale, lane) over its elements in ascending order, group by group, and Vec::Sum
// adds the lanes. Forms may fold a scale into x instead where that is exact: the bits do not
// change.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int64_t kGroup = Vec::kGroup;

DSV4_INLINE int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

DSV4_INLINE constexpr int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// Bytes of n weights.
template <WeightFormat kFormat>
DSV4_INLINE constexpr int64_t WeightBytes(int64_t n) {
  return kFormat == WeightFormat::kFp8    ? n
         : kFormat == WeightFormat::kFp4  ? n / 2
         : kFormat == WeightFormat::kBf16 ? n * 2
                                          : n * 4;
}

// What DecodeGroup's values are multiplied with to be the weights.
template <WeightFormat kFormat>
constexpr float kUnit = kFormat == WeightFormat::kFp8 ? 1.0f / Vec::kFp8Factor : 1.0f;

template <WeightFormat kFormat>
DSV4_INLINE Vec::Four DecodeGroup(const std::byte* p, Vec::Watch* watch) {
  if constexpr (kFormat == WeightFormat::kFp8) {
    return Vec::Fp8(p, watch);
  } else if constexpr (kFormat == WeightFormat::kFp4) {
    return Vec::Fp4(p);
  } else if constexpr (kFormat == WeightFormat::kBf16) {
    return Vec::Bf16s(p);
  } else {
    return Vec::F32s(p);
  }
}

// The first n of a group, zeros behind; for FP4 n is even.
template <WeightFormat kFormat>
DSV4_INLINE Vec::Four DecodePart(const std::byte* p, int64_t n, Vec::Watch* watch) {
  alignas(64) std::byte group[WeightBytes<kFormat>(kGroup)] = {};
  std::memcpy(group, p, static_cast<size_t>(WeightBytes<kFormat>(n)));
  return DecodeGroup<kFormat>(group, watch);
}

// The scales of one weight row times kUnit. kScale is the weight's format of scales.
template <WeightFormat kFormat, ScaleFormat kScale>
class RowScales {
 public:
  RowScales() = default;
  DSV4_INLINE RowScales(const WeightView& w, int64_t row)
      : cols_(w.cols),
        shift_(__builtin_ctz(static_cast<unsigned>(w.block_cols))),
        split_(w.block_cols < kGroup) {
    constexpr int64_t kBytes = kScale == ScaleFormat::kF32 ? 4 : 1;
    if (kScale != ScaleFormat::kNone) {
      scales_ = w.scale + row / w.block_rows * w.scale_cols() * kBytes;
    }
  }

  // Multiplies the group from column k on by its scales.
  DSV4_INLINE void Apply(int64_t k, Vec::Four* w) const {
    const float first = At(k);
    Multiply(first, Second(k, first), w);
  }
  // By the reciprocals of the scales, which are exact for normal powers of two.
  DSV4_INLINE void Undo(int64_t k, Vec::Four* w) const {
    const float first = 1.0f / At(k);
    Multiply(first, split_ && k + kGroup / 2 < cols_ ? 1.0f / At(k + kGroup / 2) : first, w);
  }

  // Of the second half of a group whose first half has `first`.
  DSV4_INLINE float Second(int64_t k, float first) const {
    return split_ && k + kGroup / 2 < cols_ ? At(k + kGroup / 2) : first;
  }

  DSV4_INLINE float At(int64_t k) const {
    if constexpr (kScale == ScaleFormat::kE8m0) {
      return kE8m0.values[static_cast<uint8_t>(scales_[k >> shift_])] * kUnit<kFormat>;
    } else if constexpr (kScale == ScaleFormat::kF32) {
      float value;
      std::memcpy(&value, scales_ + (k >> shift_) * 4, sizeof(value));
      return value * kUnit<kFormat>;
    } else {
      return kUnit<kFormat>;
    }
  }

 private:
  static DSV4_INLINE void Multiply(float first, float second, Vec::Four* w) {
    const Vec::F s0 = Vec::Set(first);
    const Vec::F s1 = Vec::Set(second);
    w->v[0] = Vec::Mul(w->v[0], s0);
    w->v[1] = Vec::Mul(w->v[1], s0);
    w->v[2] = Vec::Mul(w->v[2], s1);
    w->v[3] = Vec::Mul(w->v[3], s1);
  }

  int64_t cols_ = 0;
  int shift_ = 0;  // of a power-of-two block
  bool split_ = false;
  const std::byte* scales_ = nullptr;
};

// A whole group times its scales.
template <WeightFormat kFormat, ScaleFormat kScale>
DSV4_INLINE Vec::Four DecodeScaled(const std::byte* p, const RowScales<kFormat, kScale>& scales,
                                   int64_t k, Vec::Watch* watch) {
  if constexpr (kFormat == WeightFormat::kFp4) {
    const float first = scales.At(k);
    return Vec::Fp4Scaled(p, first, scales.Second(k, first));
  }
  Vec::Four four = DecodeGroup<kFormat>(p, watch);
  scales.Apply(k, &four);
  return four;
}

// Whether the E8M0 scales of weight rows [begin, end) are far enough from the ends of fp32 and bf16
// that a code times its scale is a normal number.
DSV4_INLINE bool ScalesFit(const WeightView& w, int64_t begin, int64_t end) {
  if (w.scale_format != ScaleFormat::kE8m0 || begin == end) return true;
  const int64_t first = begin / w.block_rows;
  const int64_t last = (end - 1) / w.block_rows;
  return Vec::BytesWithin(w.scale + first * w.scale_cols(), (last + 1 - first) * w.scale_cols(),
                          127 - 110, 127 + 110);
}

// Whether scales change at half groups at the finest, which the vector forms need.
DSV4_INLINE bool HasVectorBlocks(const WeightView& w) {
  return w.scale_format == ScaleFormat::kNone ||
         (w.block_cols >= kGroup / 2 && (w.block_cols & (w.block_cols - 1)) == 0);
}

}  // namespace
}  // namespace dsv4::kernels::cpu
