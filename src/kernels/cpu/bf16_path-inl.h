// The bf16 path of products (product-inl.h): x and weights as bf16, multiplied in pairs that are
// added in fp32 (VDPBF16PS). For weights whose scales are powers of two, or that have none.
// Include it inside the target region of isa_avx512_bf16.cc, after product-inl.h.
//
// A group is 64 elements in two vectors. Quantised activations and their weights stand as
// 0,2..62 | 1,3..63, in which codes unpack best; plain ones and their weights in natural order,
// that of bf16 weights.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

using Words = __m512i;  // 32 bf16

struct Two {
  Words v[2];
};

// 0,1..63 to 0,2..62 | 1,3..63 and back.
DSV4_INLINE Two ApartEvenAndOdd(Two x) {
  const Words pairs = _mm512_set1_epi32(0x00020000);
  const Words steps =
      _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         _mm512_set1_epi32(0x00040004));
  const Words even = _mm512_add_epi16(steps, pairs);
  const Words odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
  return {{_mm512_permutex2var_epi16(x.v[0], even, x.v[1]),
           _mm512_permutex2var_epi16(x.v[0], odd, x.v[1])}};
}
DSV4_INLINE Two Interleave(Two x) {
  const Words a = _mm512_unpacklo_epi16(x.v[0], x.v[1]);
  const Words b = _mm512_unpackhi_epi16(x.v[0], x.v[1]);
  const Words first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const Words second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  return {{_mm512_permutex2var_epi64(a, first, b), _mm512_permutex2var_epi64(a, second, b)}};
}

// Where element k of a quantised row stands.
DSV4_INLINE int64_t WordPosition(int64_t k) {
  const int64_t in_group = k % kGroup;
  return k - in_group + in_group % 2 * (kGroup / 2) + in_group / 2;
}

// The bf16 values of the E4M3 codes 0..127, the upper and the lower bytes apart.
struct E4m3Bytes {
  uint8_t upper[128];
  uint8_t lower[128];
};
constexpr E4m3Bytes kE4m3Bytes = [] {
  E4m3Bytes bytes{};
  for (unsigned code = 0; code < 128; ++code) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, DecodeE4m3(static_cast<uint8_t>(code)));
    bytes.upper[code] = static_cast<uint8_t>(bits >> 24);
    bytes.lower[code] = static_cast<uint8_t>(bits >> 16);
  }
  return bytes;
}();

// E4M3 codes by table: exact, NaN included.
class Fp8Table {
 public:
  DSV4_INLINE Fp8Table() {
    for (int i = 0; i < 2; ++i) {
      upper_[i] = _mm512_loadu_si512(kE4m3Bytes.upper + i * 64);
      lower_[i] = _mm512_loadu_si512(kE4m3Bytes.lower + i * 64);
    }
  }

  template <bool kNatural>
  DSV4_INLINE Two Decode(const std::byte* p) const {
    const Words codes = _mm512_loadu_si512(p);
    const Words lower = _mm512_permutex2var_epi8(lower_[0], codes, lower_[1]);
    // upper | (codes & 0x80)
    const Words upper = _mm512_ternarylogic_epi32(
        _mm512_permutex2var_epi8(upper_[0], codes, upper_[1]), codes, _mm512_set1_epi8(-128), 0xF8);
    if constexpr (!kNatural) {
      return {{_mm512_mask_blend_epi8(0xAAAAAAAAAAAAAAAA, lower, _mm512_slli_epi16(upper, 8)),
               _mm512_mask_blend_epi8(0xAAAAAAAAAAAAAAAA, _mm512_srli_epi16(lower, 8), upper)}};
    }
    // Elements 0..7, 16..23, … and 8..15, 24..31, …
    const Words a = _mm512_unpacklo_epi8(lower, upper);
    const Words b = _mm512_unpackhi_epi8(lower, upper);
    const Words first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const Words second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    return {{_mm512_permutex2var_epi64(a, first, b), _mm512_permutex2var_epi64(a, second, b)}};
  }

 private:
  Words upper_[2];
  Words lower_[2];
};

// E2M1 codes, 0,2.. | 1,3... A lookup reads the low five bits of a word, so the table stands twice.
class Fp4Table {
 public:
  DSV4_INLINE Fp4Table() {
    const __m256i half =
        _mm256_setr_epi16(0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0, -0x8000,
                          -0x4100, -0x4080, -0x4040, -0x4000, -0x3FC0, -0x3F80, -0x3F40);
    table_ = _mm512_broadcast_i64x4(half);
  }

  template <bool kNatural>
  DSV4_INLINE Two Decode(const std::byte* p) const {
    const Words codes =
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    const Words even = _mm512_permutexvar_epi16(codes, table_);
    const Words odd = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table_);
    if constexpr (!kNatural) return {{even, odd}};
    return Interleave({{even, odd}});
  }

  // 0,2.. | 1,3.., the first 32 elements times 2^first, the others times 2^second: the scales are
  // put into the table, whose halves serve the halves of the group. Steps are those of AddExponent.
  DSV4_INLINE Two DecodeScaled(const std::byte* p, const uint32_t* first,
                               const uint32_t* second) const {
    constexpr __mmask32 kNotZero = 0xFEFEFEFE;
    const Words low_step = _mm512_set1_epi32(static_cast<int>(*first));
    const Words steps = _mm512_mask_set1_epi32(low_step, 0xFF00, static_cast<int>(*second));
    const Words table = _mm512_mask_add_epi16(table_, kNotZero, table_, steps);
    const __m512i half = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(0x100), 1);
    const Words codes = _mm512_or_si512(
        _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), half);
    const Words upper = _mm512_srli_epi16(codes, 4);
    // (codes & 15) | (upper & 16): bits of upper where the mask is zero; a lookup reads five bits.
    const Words lower = _mm512_ternarylogic_epi32(codes, upper, _mm512_set1_epi16(15), 0xE4);
    return {{_mm512_permutexvar_epi16(lower, table), _mm512_permutexvar_epi16(upper, table)}};
  }

 private:
  Words table_;
};

struct Bf16Table {
  template <bool kNatural>
  DSV4_INLINE Two Decode(const std::byte* p) const {
    return {{_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64)}};
  }
};

template <WeightFormat kFormat>
struct TableOf {
  using Type = Bf16Table;
};
template <>
struct TableOf<WeightFormat::kFp8> {
  using Type = Fp8Table;
};
template <>
struct TableOf<WeightFormat::kFp4> {
  using Type = Fp4Table;
};

template <class Table, WeightFormat kFormat, bool kNatural>
DSV4_INLINE Two DecodeWords(const Table& table, const std::byte* p, int64_t n) {
  if (n >= kGroup) return table.template Decode<kNatural>(p);
  alignas(64) std::byte group[WeightBytes<kFormat>(kGroup)] = {};
  std::memcpy(group, p, static_cast<size_t>(WeightBytes<kFormat>(n)));
  return table.template Decode<kNatural>(group);
}

// What is added to the bits of a bf16 value other than zero to multiply it by 2^(code - 127).
DSV4_INLINE int ExponentStep(std::byte code) { return (static_cast<int>(code) - 127) * 128; }

// The same in both words of 32 bits, to be broadcast from memory.
struct ExponentSteps {
  uint32_t steps[256];
};
constexpr ExponentSteps kExponentSteps = [] {
  ExponentSteps table{};
  for (uint32_t code = 0; code < 256; ++code) {
    const uint32_t step = ((code - 127u) * 128u) & 0xFFFFu;
    table.steps[code] = step << 16 | step;
  }
  return table;
}();

// x * 2^s for words of which none but zeros may leave the range of normal numbers.
DSV4_INLINE Words AddExponent(Words x, Words step) {
  const __mmask32 not_zero = _mm512_test_epi16_mask(x, _mm512_set1_epi16(0x7FFF));
  return _mm512_mask_add_epi16(x, not_zero, x, step);
}

// E8M0 scales of one weight row as exponent steps, over groups.
class ExponentRow {
 public:
  DSV4_INLINE ExponentRow(const WeightView& w, int64_t row)
      : scales_(w.scale + row / w.block_rows * w.scale_cols()),
        cols_(w.cols),
        shift_(__builtin_ctz(static_cast<unsigned>(w.block_cols))),
        split_(w.block_cols < kGroup) {}

  template <bool kNatural>
  DSV4_INLINE Two Apply(int64_t k, Two x) const {
    const Words first = _mm512_set1_epi16(static_cast<int16_t>(ExponentStep(scales_[k >> shift_])));
    if (!split_) return {{AddExponent(x.v[0], first), AddExponent(x.v[1], first)}};
    const int64_t next = Smaller(k + kGroup / 2, cols_ - 1) >> shift_;
    const int16_t step = static_cast<int16_t>(ExponentStep(scales_[next]));
    if constexpr (kNatural) {
      return {{AddExponent(x.v[0], first), AddExponent(x.v[1], _mm512_set1_epi16(step))}};
    }
    const Words both = _mm512_mask_set1_epi16(first, 0xFFFF0000, step);
    return {{AddExponent(x.v[0], both), AddExponent(x.v[1], both)}};
  }

  DSV4_INLINE const uint32_t* First(int64_t k) const { return Steps(k); }
  DSV4_INLINE const uint32_t* Second(int64_t k) const {
    return Steps(Smaller(k + kGroup / 2, cols_ - 1));
  }

 private:
  DSV4_INLINE const uint32_t* Steps(int64_t k) const {
    return kExponentSteps.steps + static_cast<uint8_t>(scales_[k >> shift_]);
  }

  const std::byte* scales_;
  int64_t cols_;
  int shift_;
  bool split_;
};

// Of n codes from p on: a NaN would not outlast AddExponent.
template <WeightFormat kFormat>
DSV4_INLINE Vec::Watch WatchNan(const std::byte* p, int64_t n, Vec::Watch watch) {
  if constexpr (kFormat != WeightFormat::kFp8) return watch;
  const __mmask64 mask = n >= kGroup ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
  const Words codes = _mm512_maskz_loadu_epi8(mask, p);
  return _mm512_max_epu8(watch, _mm512_or_si512(codes, _mm512_set1_epi8(-128)));
}

// Whether x * 2^(code - 127) is exact in every word: zero, or normal before and after.
DSV4_INLINE bool StaysNormal(Words x, int exponent) {
  const Words field = _mm512_and_si512(_mm512_srli_epi16(x, 7), _mm512_set1_epi16(0xFF));
  const int low = exponent < 0 ? 1 - exponent : 1;
  const int high = exponent > 0 ? 254 - exponent : 254;
  const __mmask32 out =
      _mm512_cmplt_epi16_mask(field, _mm512_set1_epi16(static_cast<int16_t>(low))) |
      _mm512_cmpgt_epi16_mask(field, _mm512_set1_epi16(static_cast<int16_t>(high)));
  return (out & _mm512_test_epi16_mask(x, _mm512_set1_epi16(0x7FFF))) == 0;
}

template <WeightFormat kFormat, ScaleFormat kScale, bool kNatural>
struct Bf16Path {
  static constexpr bool kIsScaled = kScale == ScaleFormat::kE8m0;
  static constexpr int64_t kElementBytes = 2;
  static constexpr int64_t kPanelColumns = 1024;
  static constexpr int64_t kPanelRowBytes = kPanelColumns * kElementBytes;
  static constexpr bool kFolds = kFormat == WeightFormat::kFp8 && kIsScaled;
  using Register = Words;
  using Table = typename TableOf<kFormat>::Type;

  static DSV4_INLINE Register Load(const void* p) { return _mm512_loadu_si512(p); }
  static DSV4_INLINE Vec::F Dot(Register a, Register b, Vec::F acc) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }

  template <int kRows>
  static void Tile(Rows x, const std::byte* panel, Columns columns, float* lanes) {
    DotTile<Bf16Path, kRows>(x, panel, columns, lanes);
  }

  static bool Fold(const WeightView& w, int64_t weight_row, const std::byte* x, int64_t begin,
                   int64_t end, std::byte* folded) {
    if (w.block_cols < kGroup) return false;
    const ExponentRow scales(w, weight_row);
    const std::byte* const codes = w.scale + weight_row / w.block_rows * w.scale_cols();
    bool exact = true;
    for (int64_t k = begin; k < end; k += kGroup, x += kGroup * 2, folded += kGroup * 2) {
      const Two two = {{Load(x), Load(x + 64)}};
      const int exponent = static_cast<int>(codes[k / w.block_cols]) - 127;
      exact &= StaysNormal(two.v[0], exponent) && StaysNormal(two.v[1], exponent);
      const Two product = scales.template Apply<kNatural>(k, two);
      _mm512_storeu_si512(folded, product.v[0]);
      _mm512_storeu_si512(folded + 64, product.v[1]);
    }
    return exact;
  }

  template <bool kFolded, int kRows>
  static void AddFourRows(const WeightView& w, FourRows rows, Rows x, Columns columns, float* lanes,
                          Vec::Watch* watch) {
    const Table table;
    Vec::Watch seen = *watch;
    const std::byte* const data = w.data + rows.first * WeightBytes<kFormat>(w.cols);
    const int64_t step = rows.step * WeightBytes<kFormat>(w.cols);
    const ExponentRow scales[kFour] = {ExponentRow(w, rows.Row(0)), ExponentRow(w, rows.Row(1)),
                                       ExponentRow(w, rows.Row(2)), ExponentRow(w, rows.Row(3))};
    constexpr bool kApplies = kIsScaled && !kFolded;
    FewSums<kRows> sums(lanes, rows.step);
    for (int64_t k = columns.begin; k < columns.end; k += kGroup, x.data += kGroup * 2) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) {
        const std::byte* const p = data + i * step + WeightBytes<kFormat>(k);
        __builtin_prefetch(p + kPrefetchBytes);
        const Two two = DecodeScaled<kApplies>(table, scales[i], p, k, columns.end, &seen);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const std::byte* const words = x.data + r * x.stride;
          const Vec::F first = Dot(Load(words), two.v[0], sums.acc[r][i]);
          sums.acc[r][i] = Dot(Load(words + 64), two.v[1], first);
        }
      }
    }
    sums.Store(lanes, rows.step);
    *watch = seen;
  }

  static void DecodeRow(const WeightView& w, int64_t row, int64_t begin, int64_t end, bool,
                        std::byte* out, Vec::Watch* watch) {
    const Table table;
    Vec::Watch seen = *watch;
    const ExponentRow scales(w, row);
    const std::byte* const data = w.data + row * WeightBytes<kFormat>(w.cols);
    for (int64_t k = begin; k < end; k += kGroup, out += kGroup * 2) {
      const std::byte* const p = data + WeightBytes<kFormat>(k);
      const Two two = DecodeScaled<kIsScaled>(table, scales, p, k, end, &seen);
      _mm512_storeu_si512(out, two.v[0]);
      _mm512_storeu_si512(out + 64, two.v[1]);
    }
    *watch = seen;
  }

 private:
  // The group from column k on, at p; columns from `end` on are zeros.
  template <bool kScales>
  static DSV4_INLINE Two DecodeScaled(const Table& table, const ExponentRow& scales,
                                      const std::byte* p, int64_t k, int64_t end,
                                      Vec::Watch* seen) {
    if constexpr (kScales && kFormat == WeightFormat::kFp4 && !kNatural) {
      if (k + kGroup <= end) return table.DecodeScaled(p, scales.First(k), scales.Second(k));
    }
    const Two two = DecodeWords<Table, kFormat, kNatural>(table, p, end - k);
    if constexpr (!kScales) return two;
    *seen = WatchNan<kFormat>(p, end - k, *seen);
    return scales.template Apply<kNatural>(k, two);
  }
};

template <WeightFormat kFormat, ScaleFormat kScale>
using QuantizedPath = Bf16Path<kFormat, kScale, false>;
template <WeightFormat kFormat, ScaleFormat kScale>
using PlainPath = Bf16Path<kFormat, kScale, true>;

}  // namespace
}  // namespace dsv4::kernels::cpu
