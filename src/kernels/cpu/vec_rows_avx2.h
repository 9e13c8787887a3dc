// What the entries other than products need beyond vec_avx2.h: rows of bf16 with ragged ends, codes
// in natural order, eight double sums, integers. Include it inside the target region, after
// vec_avx2.h.
#pragma once

#include "kernels/cpu/vec_avx2.h"
#include "numeric/bf16.h"

namespace dsv4::kernels::cpu {
namespace {

struct RowVec : Vec {
  static constexpr int kHeadTile = 3;    // heads by four rows of dot products in registers
  static constexpr int kValueHeads = 6;  // heads by kValueVecs vectors of weighted sums
  static constexpr int kValueVecs = 2;
  static constexpr int kIndexHeads = 4;  // index heads by two vectors of keys

  using I = __m256i;
  static constexpr int kAllLanes = 0xFF;

  // The first n of eight; the rest zero.
  static DSV4_INLINE F LoadPart(const float* p, int64_t n) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
    return Load(lanes);
  }
  static DSV4_INLINE void StorePart(F x, float* p, int64_t n) {
    float lanes[kLanes];
    Store(x, lanes);
    std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
  }
  static DSV4_INLINE F LoadBf16(const void* p) {
    const __m128i half = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
  }
  static DSV4_INLINE F LoadBf16Part(const void* p, int64_t n) {
    uint16_t lanes[kLanes] = {};
    std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(Bf16));
    return LoadBf16(lanes);
  }
  // As ToBf16, NaN too; in the upper halves.
  static DSV4_INLINE I RoundBits(F x) {
    const I bits = _mm256_castps_si256(x);
    const I odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const I up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const I nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(up, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  }
  static DSV4_INLINE __m128i Bf16Bits(F x) {
    const I upper = _mm256_srli_epi32(RoundBits(x), 16);
    return _mm256_castsi256_si128(
        _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0xD8));
  }
  static DSV4_INLINE F RoundToBf16Lanes(F x) {
    return _mm256_castsi256_ps(_mm256_and_si256(RoundBits(x), _mm256_set1_epi32(-65536)));
  }
  static DSV4_INLINE void StoreBf16(F x, void* p) {
    _mm_storeu_si128(static_cast<__m128i*>(p), Bf16Bits(x));
  }
  static DSV4_INLINE void StoreBf16Part(F x, void* p, int64_t n) {
    uint16_t lanes[kLanes];
    StoreBf16(x, lanes);
    std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(Bf16));
  }

  static DSV4_INLINE F Negate(F x) { return _mm256_xor_ps(x, Set(-0.0f)); }
  static DSV4_INLINE F IfEqual(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
  }
  static DSV4_INLINE F RoundToInteger(F x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x * 2^n for whole n and |n| < 250, rounded once.
  static DSV4_INLINE F TimesPowerOfTwo(F x, F n) {
    const I exponent = _mm256_cvtps_epi32(n);
    const I half = _mm256_srai_epi32(exponent, 1);
    const I bias = _mm256_set1_epi32(127);
    const I first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const I second =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(exponent, half), bias), 23);
    return Mul(Mul(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
  }
  // One bit per lane: a > b; NaN counts as not greater.
  static DSV4_INLINE int Greater(F a, F b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
  }

  // Lanes 4 apart, then 2, then 1.
  static DSV4_INLINE float LaneSum(F x) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Sums of four vectors, lanes neighbouring first.
  static DSV4_INLINE void StoreSums(F a, F b, F c, F d, float* p) {
    const F four = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1)));
  }

  // Lane i takes lane i ^ half; kLanes > half.
  template <int half>
  static DSV4_INLINE F ExchangeLanes(F x) {
    if constexpr (half == 1) return _mm256_permute_ps(x, 0xB1);
    if constexpr (half == 2) return _mm256_permute_ps(x, 0x4E);
    return _mm256_permute2f128_ps(x, x, 1);
  }
  // The sign bit in the lanes i with (i & half) != 0.
  template <int half>
  static DSV4_INLINE F UpperSigns() {
    const I lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const I upper = _mm256_and_si256(lane, _mm256_set1_epi32(half));
    return _mm256_castsi256_ps(_mm256_slli_epi32(upper, half == 1 ? 31 : half == 2 ? 30 : 29));
  }
  static DSV4_INLINE F Xor(F a, F b) { return _mm256_xor_ps(a, b); }
  // p[0], p[0], p[1], p[1], …; n values, zeros behind.
  static DSV4_INLINE F Doubled(const float* p, int64_t n) {
    const F x = n == kLanes / 2 ? _mm256_castps128_ps256(_mm_loadu_ps(p)) : LoadPart(p, n);
    return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
  }

  // Sums of squares in double, element k in sum k mod 8: kLanes elements at a time.
  struct Squares {
    __m256d low, high;
    // Written out: an implicit one would not belong to the target region.
    DSV4_INLINE Squares() : low(_mm256_setzero_pd()), high(_mm256_setzero_pd()) {}
    DSV4_INLINE void Add(F x) {
      const __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
      const __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
      low = _mm256_fmadd_pd(a, a, low);
      high = _mm256_fmadd_pd(b, b, high);
    }
    DSV4_INLINE void Get(double* sums) const {
      _mm256_storeu_pd(sums, low);
      _mm256_storeu_pd(sums + 4, high);
    }
  };

  // E4M3 rounding of finite 2^-6 <= x <= 448.
  // Codes of values that RoundToE4m3 gave; n of them.
  static DSV4_INLINE void StoreE4m3Codes(F rounded, uint8_t* p, int64_t n) {
    const F magnitude = Abs(rounded);
    const I normal = _mm256_sub_epi32(_mm256_srli_epi32(_mm256_castps_si256(magnitude), 20),
                                      _mm256_set1_epi32(120 << 3));
    const I subnormal = _mm256_cvtps_epi32(Mul(magnitude, Set(0x1p9f)));
    const I is_small = _mm256_castps_si256(_mm256_cmp_ps(magnitude, Set(0x1p-6f), _CMP_LT_OQ));
    I code = _mm256_blendv_epi8(normal, subnormal, is_small);
    code = _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7F),
                              _mm256_castps_si256(_mm256_cmp_ps(rounded, rounded, _CMP_UNORD_Q)));
    const I sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(rounded), 24),
                                    _mm256_set1_epi32(0x80));
    StoreLowBytes(_mm256_or_si256(code, sign), p, n);
  }
  // E2M1 codes of x, two to a byte. NaN lies beyond all borders.
  static DSV4_INLINE void StoreE2m1Codes(F x, std::byte* p) {
    const F m = Abs(x);
    // Compares give -1 where the magnitude lies beyond the border.
    I code = Count(_mm256_setzero_si256(), _mm256_cmp_ps(m, Set(0.25f), _CMP_NLE_UQ));
    code = Count(code, _mm256_cmp_ps(m, Set(0.75f), _CMP_NLT_UQ));
    code = Count(code, _mm256_cmp_ps(m, Set(1.25f), _CMP_NLE_UQ));
    code = Count(code, _mm256_cmp_ps(m, Set(1.75f), _CMP_NLT_UQ));
    code = Count(code, _mm256_cmp_ps(m, Set(2.5f), _CMP_NLE_UQ));
    code = Count(code, _mm256_cmp_ps(m, Set(3.5f), _CMP_NLT_UQ));
    code = Count(code, _mm256_cmp_ps(m, Set(5.0f), _CMP_NLE_UQ));
    const I sign =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 28), _mm256_set1_epi32(8));
    code = _mm256_or_si256(code, sign);
    const I pairs = _mm256_or_si256(code, _mm256_srli_epi64(code, 28));  // in the lowest bytes
    const I low = _mm256_shuffle_epi8(pairs, _mm256_set1_epi64x(0x0800));
    const int first = _mm_cvtsi128_si32(_mm256_castsi256_si128(low));
    const int second = _mm_cvtsi128_si32(_mm256_extracti128_si256(low, 1));
    const uint32_t all =
        (static_cast<uint32_t>(first) & 0xFFFFu) | (static_cast<uint32_t>(second) << 16);
    std::memcpy(p, &all, sizeof(all));
  }
  static DSV4_INLINE I Count(I counts, F is_true) {
    return _mm256_sub_epi32(counts, _mm256_castps_si256(is_true));
  }
  static DSV4_INLINE void StoreLowBytes(I x, uint8_t* p, int64_t n) {
    const I bytes = _mm256_packus_epi16(_mm256_packus_epi32(x, x), _mm256_setzero_si256());
    const int low = _mm_cvtsi128_si32(_mm256_castsi256_si128(bytes));
    const int high = _mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1));
    const uint64_t all =
        static_cast<uint32_t>(low) | (static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32);
    std::memcpy(p, &all, static_cast<size_t>(n));
  }

  // kLanes E4M3 codes.
  static DSV4_INLINE F LoadE4m3(const std::byte* p) {
    const __m128i codes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i half = _mm_and_si128(_mm_slli_epi16(_mm_cvtepi8_epi16(codes), 7),
                                       _mm_set1_epi16(static_cast<int16_t>(0xBF80)));
    const F x = Mul(_mm256_cvtph_ps(half), Set(0x1p8f));
    return IfEqual(Abs(x), Set(480.0f), Set(__builtin_nanf("")), x);
  }
  // kLanes E2M1 codes.
  static DSV4_INLINE F LoadE2m1(const std::byte* p) {
    int32_t codes;
    std::memcpy(&codes, p, sizeof(codes));
    const I shifted =
        _mm256_srlv_epi32(_mm256_set1_epi32(codes), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const F table = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    const I sign = _mm256_slli_epi32(_mm256_srli_epi32(shifted, 3), 31);
    return _mm256_or_ps(_mm256_permutevar8x32_ps(table, shifted), _mm256_castsi256_ps(sign));
  }

  // Index keys. A lane holds four columns of one key as bytes 0…24: twice the value plus 12.
  static DSV4_INLINE I ZeroI() { return _mm256_setzero_si256(); }
  static DSV4_INLINE I SetI(int32_t x) { return _mm256_set1_epi32(x); }
  static DSV4_INLINE I LoadI(const void* p) { return _mm256_loadu_si256(static_cast<const I*>(p)); }
  static DSV4_INLINE void StoreI(I x, void* p) { _mm256_storeu_si256(static_cast<I*>(p), x); }
  // Spreads the four codes in the lower half of each lane.
  static DSV4_INLINE I KeyBytes(I lanes) {
    const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    const I pairs = _mm256_and_si256(_mm256_or_si256(lanes, _mm256_slli_epi32(lanes, 8)),
                                     _mm256_set1_epi32(0x00FF00FF));
    const I codes = _mm256_and_si256(_mm256_or_si256(pairs, _mm256_slli_epi32(pairs, 4)),
                                     _mm256_set1_epi32(0x0F0F0F0F));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), codes);
  }
  // The first n of eight 16-bit words, one to a lane.
  static DSV4_INLINE I LoadWords(const void* p, int64_t n) {
    uint16_t words[kLanes] = {};
    std::memcpy(words, p, static_cast<size_t>(n) * sizeof(uint16_t));
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
  }
  static DSV4_INLINE I LoadWords(const void* p) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  // Products of keys with query bytes, -24…24: in pairs of 16-bit sums, from the low half of
  // `start` on. DotSum makes one float of each lane.
  static DSV4_INLINE I DotStart(int32_t start) { return _mm256_set1_epi32(start & 0xFFFF); }
  static DSV4_INLINE I SubtractBytes(I a, I b) { return _mm256_sub_epi8(a, b); }
  static DSV4_INLINE I DotAdd(I sum, I keys, I q) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(keys, q));
  }
  static DSV4_INLINE F DotSum(I sum) {
    return _mm256_cvtepi32_ps(_mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
