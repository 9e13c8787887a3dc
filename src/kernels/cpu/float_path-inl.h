// The fp32 path of products (product-inl.h): x and weights as fp32, fused
// multiply-adds. Include it inside a target region, after product-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

template <WeightFormat kFormat, ScaleFormat kScale>
struct FloatPath {
  using Scales = RowScales<kFormat, kScale>;
  using Register = Vec::F;
  static constexpr int64_t kElementBytes = 4;
  static constexpr int64_t kPanelColumns = 512;
  static constexpr int64_t kPanelRowBytes = kPanelColumns * kElementBytes;
  // FP8 weights share scales over many rows.
  static constexpr bool kFolds = kFormat == WeightFormat::kFp8 && kScale == ScaleFormat::kE8m0;
  static constexpr bool kIsScaled = kScale != ScaleFormat::kNone || kUnit<kFormat> != 1.0f;

  static DSV4_INLINE Register Load(const void* p) { return Vec::Load(p); }
  static DSV4_INLINE Vec::F Dot(Register a, Register b, Vec::F acc) { return Vec::Fma(a, b, acc); }

  template <int kRows>
  static void Tile(Rows x, const std::byte* panel, Columns columns, float* lanes) {
    DotTile<FloatPath, kRows>(x, panel, columns, lanes);
  }

  static bool Fold(const WeightView& w, int64_t weight_row, const std::byte* x, int64_t begin,
                   int64_t end, std::byte* folded) {
    const Scales scales(w, weight_row);
    bool exact = true;
    for (int64_t k = begin; k < end; k += kGroup, x += kGroup * 4, folded += kGroup * 4) {
      Vec::Four before;
      for (int i = 0; i < 4; ++i) before.v[i] = Vec::Load(x + i * kLaneBytes);
      Vec::Four four = before;
      scales.Apply(k, &four);
      Vec::Four back = four;
      scales.Undo(k, &back);
      for (int i = 0; i < 4; ++i) {
        exact &= Vec::AllEqual(before.v[i], back.v[i]);
        Vec::Store(four.v[i], folded + i * kLaneBytes);
      }
    }
    return exact;
  }

  template <bool kFolded, int kRows>
  static void AddFourRows(const WeightView& w, FourRows rows, Rows x, Columns columns, float* lanes,
                          Vec::Watch* watch) {
    const std::byte* const data = w.data + rows.first * WeightBytes<kFormat>(w.cols);
    const int64_t step = rows.step * WeightBytes<kFormat>(w.cols);
    const Scales scales[kFour] = {Scales(w, rows.Row(0)), Scales(w, rows.Row(1)),
                                  Scales(w, rows.Row(2)), Scales(w, rows.Row(3))};
    constexpr bool kApplies = kIsScaled && !kFolded;
    FewSums<kRows> sums(lanes, rows.step);
    Vec::Watch seen = *watch;
    int64_t k = columns.begin;
    for (; k + kGroup <= columns.end; k += kGroup, x.data += kGroup * 4) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) {
        const std::byte* const p = data + i * step + WeightBytes<kFormat>(k);
        __builtin_prefetch(p + kPrefetchBytes);
        sums.AddGroup(i, Decode<kApplies>(p, scales[i], k, columns.end, &seen), x);
      }
    }
    if (k < columns.end) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) {
        const std::byte* const p = data + i * step + WeightBytes<kFormat>(k);
        sums.AddGroup(i, Decode<kApplies>(p, scales[i], k, columns.end, &seen), x);
      }
    }
    sums.Store(lanes, rows.step);
    *watch = seen;
  }

  static void DecodeRow(const WeightView& w, int64_t row, int64_t begin, int64_t end, bool rounds,
                        std::byte* out, Vec::Watch* watch) {
    const Scales scales(w, row);
    const std::byte* const data = w.data + row * WeightBytes<kFormat>(w.cols);
    Vec::Watch seen = *watch;
    for (int64_t k = begin; k < end; k += kGroup, out += kGroup * 4) {
      const std::byte* const p = data + WeightBytes<kFormat>(k);
      const Vec::Four four = Decode<kIsScaled>(p, scales, k, end, &seen);
      for (int i = 0; i < 4; ++i) {
        Vec::Store(rounds ? Vec::RoundMantissa<16>(four.v[i]) : four.v[i], out + i * kLaneBytes);
      }
    }
    *watch = seen;
  }

 private:
  // The group from column k on, at p; columns from `end` on are zeros.
  template <bool kScales>
  static DSV4_INLINE Vec::Four Decode(const std::byte* p, const Scales& scales, int64_t k,
                                      int64_t end, Vec::Watch* watch) {
    if (k + kGroup <= end) {
      if constexpr (kScales) return DecodeScaled<kFormat, kScale>(p, scales, k, watch);
      return DecodeGroup<kFormat>(p, watch);
    }
    Vec::Four four = DecodePart<kFormat>(p, end - k, watch);
    if constexpr (kScales) scales.Apply(k, &four);
    return four;
  }
};

// fp32 rows against any weight.
Doubts RunFloatPath(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows) {
  switch (args.weight->format) {
    case WeightFormat::kFp8:
      return RunScaled<FloatPath, WeightFormat::kFp8>(args, x, first_row, num_rows);
    case WeightFormat::kFp4:
      return RunScaled<FloatPath, WeightFormat::kFp4>(args, x, first_row, num_rows);
    case WeightFormat::kBf16:
      return RunPath<FloatPath<WeightFormat::kBf16, ScaleFormat::kNone>>(args, x, first_row,
                                                                         num_rows);
    case WeightFormat::kF32:
      break;
  }
  return RunPath<FloatPath<WeightFormat::kF32, ScaleFormat::kNone>>(args, x, first_row, num_rows);
}

}  // namespace
}  // namespace dsv4::kernels::cpu
