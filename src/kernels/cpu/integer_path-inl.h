// The integer path of products (product-inl.h): FP4 weights against quantised activations whose
// scales are powers of two. E2M1 codes and E4M3 codes are whole numbers times a power of two, so
// that a group of codes is multiplied and added exactly, and only the sum meets the scales.
// Include it inside a target region, after product-inl.h.
//
// A word group is 8 * kLanes elements: as many blocks of 32 as scales fill the lanes in fours. Lane
// l takes its elements 8l .. 8l+7. Words are int16; vector i of four holds element 4w + i in word
// w.
//
// An activation is (8 * upper + lower) * 2^-9 * scale with |upper| <= 28672 and lower in 0..7; most
// blocks have no lower part, since only values below 1/8 need one. A prepared row holds
//   upper parts: int16[cols], lower parts: int16[cols],
//   per 128 columns: fp32 factor of the upper sum, fp32 factor of the lower sum (0 without one).
// Lane l of an output takes fma(sum of upper, weight scale * factor, lane), then the same of lower,
// group by group in ascending order.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int64_t kWordGroup = 8 * kLanes;
constexpr int64_t kWordVectorBytes = 4 * kLanes;  // 2 * kLanes words
constexpr int64_t kBlocksOfGroup = kWordGroup / 32;
constexpr int32_t kIntegerBlock = 128;
// Words are weights in units of 2^-9: the value of a code in halves times 256.
constexpr float kUpperUnit = 0x1p-15f;
constexpr float kLowerUnit = 0x1p-18f;

// Whether rows have room for the form of the path.
DSV4_INLINE bool HasIntegerForm(Activation activation, int64_t cols, int32_t block) {
  return activation == Activation::kQuantized && block == kIntegerBlock &&
         cols % kIntegerBlock == 0;
}

DSV4_INLINE int64_t IntegerRowBytes(int64_t cols) { return cols * 4 + cols / kIntegerBlock * 8; }

// Whether the form is filled: PrepareArgs or ProductArgs.
template <class Args>
DSV4_INLINE bool FillsIntegerForm(const Args& args, int64_t cols) {
  return args.scale == ActScale::kPowerOfTwo && HasIntegerForm(args.activation, cols, args.block);
}

DSV4_INLINE bool TakesIntegerPath(const ProductArgs& args) {
  const WeightView& w = *args.weight;
  return w.format == WeightFormat::kFp4 && w.scale_format == ScaleFormat::kE8m0 &&
         w.block_rows == 1 && w.block_cols == 32 && FillsIntegerForm(args, w.cols);
}

// The integer form of a row of E4M3 values, stored as they come.
class IntegerRow {
 public:
  DSV4_INLINE IntegerRow(std::byte* out, int64_t cols) : out_(out), cols_(cols) {}

  // E4M3 values of kGroup columns from k on, each still to be multiplied by `scale`.
  DSV4_INLINE void Store(int64_t k, const Vec::Four& values, float scale) {
    if (k % kIntegerBlock == 0) lowers_ = nan_ = false;
    Vec::I upper[4], lower[4];
    for (int i = 0; i < 4; ++i) {
      nan_ |= !Vec::AllEqual(values.v[i], values.v[i]);
      const Vec::I whole = Vec::ToInts(Vec::Mul(values.v[i], Vec::Set(0x1p9f)));
      upper[i] = Vec::ShiftRight3(whole);
      lower[i] = Vec::LowThreeBits(whole);
    }
    const int64_t in_group = k % kWordGroup;
    std::byte* const at = out_ + (k - in_group) * 2 + in_group / 2;
    Vec::StoreFourths(upper, at, kWordVectorBytes);
    Vec::StoreFourths(lower, at + cols_ * 2, kWordVectorBytes);
    lowers_ |=
        Vec::AnyBit(Vec::OrInts(Vec::OrInts(lower[0], lower[1]), Vec::OrInts(lower[2], lower[3])));
    // A NaN makes every product NaN.
    const float factor = nan_ ? std::numeric_limits<float>::quiet_NaN() : scale;
    const float factors[2] = {factor * kUpperUnit, lowers_ ? factor * kLowerUnit : 0.0f};
    std::memcpy(out_ + cols_ * 4 + k / kIntegerBlock * 8, factors, sizeof(factors));
  }

 private:
  std::byte* out_;
  int64_t cols_;
  bool lowers_ = false;
  bool nan_ = false;
};

// The factors of columns from k on, of a row whose upper part of column k is at x.
struct Factors {
  float upper;
  float lower;

  Factors() = default;
  DSV4_INLINE Factors(const std::byte* x, int64_t k, int64_t cols) {
    std::memcpy(this, x - k * 2 + cols * 4 + k / kIntegerBlock * 8, sizeof(*this));
  }
  // By its bits, since a comparison of numbers minds NaN and signs.
  DSV4_INLINE bool HasLower() const { return __builtin_bit_cast(uint32_t, lower) != 0; }
};

// Sums of products of words in every lane.
struct MaddDots {
  static DSV4_INLINE Vec::F Sum(const Vec::Words& a, const std::byte* b) {
    return Vec::SumWords(a, b);
  }
};

template <class Dots>
struct IntegerPath {
  static constexpr int64_t kElementBytes = 2;
  static constexpr bool kFolds = false;
  static constexpr int64_t kPanelColumns = 1024;
  // Words of the panel's columns, then the scales of each group in its lanes.
  static constexpr int64_t kPanelRowBytes =
      kPanelColumns * 2 + kPanelColumns / kWordGroup * kLaneBytes;

  template <bool kFolded, int kRows>
  static void AddFourRows(const WeightView& w, FourRows rows, Rows x, Columns columns, float* lanes,
                          Vec::Watch*) {
    Group group{.data = w.data + (rows.first * w.cols + columns.begin) / 2,
                .step = rows.step * w.cols / 2,
                .scales = w.scale + rows.first * w.scale_cols() + columns.begin / 32,
                .scale_step = rows.step * w.scale_cols(),
                .x = x,
                .lower = w.cols * 2};
    FewSums<kRows> sums(lanes, rows.step);
    for (int64_t k = columns.begin; k < columns.end; k += kWordGroup) {
      Factors factors[kRows];
      bool has_lower = false;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        factors[r] = Factors(group.x.data + r * x.stride, k, w.cols);
        has_lower |= factors[r].HasLower();
      }
      // A row without a lower part adds zeros where another has one.
      if (has_lower) {
        AddGroup<true>(group, factors, &sums);
      } else {
        AddGroup<false>(group, factors, &sums);
      }
      group.data += kWordGroup / 2;
      group.scales += kBlocksOfGroup;
      group.x.data += kWordGroup * 2;
    }
    sums.Store(lanes, rows.step);
  }

  static void DecodeRow(const WeightView& w, int64_t row, int64_t begin, int64_t end, bool,
                        std::byte* out, Vec::Watch*) {
    const std::byte* const data = w.data + row * w.cols / 2;
    const std::byte* const scales = w.scale + row / w.block_rows * w.scale_cols();
    std::byte* scale_out = out + kPanelColumns * 2;
    for (int64_t k = begin; k < end; k += kWordGroup, out += kWordGroup * 2) {
      const Vec::Words words = Vec::Fp4Words(data + k / 2);
      for (int i = 0; i < 4; ++i) Vec::StoreWords(words.v[i], out + i * kWordVectorBytes);
      Vec::Store(Vec::Fp4Scales(scales + k / 32), scale_out);
      scale_out += kLaneBytes;
    }
  }

  // kRows activation rows against four rows of the panel.
  template <int kRows>
  static void Tile(Rows x, const std::byte* panel, Columns columns, float* lanes) {
    Vec::F acc[kRows][kFour];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) acc[r][i] = Vec::Load(lanes + (r * kBandRows + i) * kLanes);
    }
    const std::byte* scales = panel + kPanelColumns * 2;
    for (int64_t k = columns.begin; k < columns.end; k += kWordGroup) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const std::byte* const p = x.data + r * x.stride;
        const Factors factors(p, k, columns.cols);
        AddTileRow(p, factors.upper, panel, scales, acc[r]);
        if (factors.HasLower())
          AddTileRow(p + columns.cols * 2, factors.lower, panel, scales, acc[r]);
      }
      x.data += kWordGroup * 2;
      panel += kWordGroup * 2;
      scales += kLaneBytes;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) Vec::Store(acc[r][i], lanes + (r * kBandRows + i) * kLanes);
    }
  }

 private:
  // A word group of an activation row, words at x, against four rows of the panel.
  static DSV4_INLINE void AddTileRow(const std::byte* x, float factor, const std::byte* panel,
                                     const std::byte* scales, Vec::F* acc) {
    const Vec::Words words = LoadWordGroup(x);
    const Vec::F row_factor = Vec::Set(factor);
#pragma GCC unroll 4
    for (int i = 0; i < kFour; ++i) {
      const Vec::F scale = Vec::Mul(Vec::Load(scales + i * kPanelRowBytes), row_factor);
      acc[i] = Vec::Fma(Dots::Sum(words, panel + i * kPanelRowBytes), scale, acc[i]);
    }
  }

  static DSV4_INLINE Vec::Words LoadWordGroup(const std::byte* p) {
    Vec::Words words;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) words.v[i] = Vec::LoadWords(p + i * kWordVectorBytes);
    return words;
  }

  // A word group of four weight rows and of the activation rows.
  struct Group {
    const std::byte* data;
    int64_t step;  // to the next weight row
    const std::byte* scales;
    int64_t scale_step;
    Rows x;
    int64_t lower;  // from the upper part of x to the lower one
  };

  template <bool kHasLower, int kRows>
  static DSV4_INLINE void AddGroup(const Group& group, const Factors* factors,
                                   FewSums<kRows>* sums) {
#pragma GCC unroll 4
    for (int i = 0; i < kFour; ++i) {
      const std::byte* const p = group.data + i * group.step;
      __builtin_prefetch(p + kPrefetchBytes);
      const Vec::Words words = Vec::Fp4Words(p);
      const Vec::F scale = Vec::Fp4Scales(group.scales + i * group.scale_step);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const std::byte* const x = group.x.data + r * group.x.stride;
        Vec::F& acc = sums->acc[r][i];
        acc = Vec::Fma(Dots::Sum(words, x), Vec::Mul(scale, Vec::Set(factors[r].upper)), acc);
        if constexpr (kHasLower) {
          const Vec::F factor = Vec::Mul(scale, Vec::Set(factors[r].lower));
          acc = Vec::Fma(Dots::Sum(words, x + group.lower), factor, acc);
        }
      }
    }
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
