// Eight fp32 lanes with AVX2, FMA and F16C. Include it inside the target region of isa_avx2.cc.
//
// A group is 4 * kLanes = 32 elements. Its four vectors hold the elements 0,2..14 | 16,18..30 |
// 1,3..15 | 17,19..31: the order in which codes unpack without shuffles, the same for all formats.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define DSV4_INLINE inline __attribute__((always_inline))

namespace dsv4::kernels::cpu {
namespace {

struct Vec {
  static constexpr int kLanes = 8;
  static constexpr int kGroup = 4 * kLanes;
  static constexpr int kTileRows = 3;  // activation rows of a register tile of 4 weight rows

  using F = __m256;
  struct Four {
    F v[4];
  };
  // Largest code seen, the sign set: 0xFF in a byte after an E4M3 NaN.
  using Watch = __m256i;

  static DSV4_INLINE F Zero() { return _mm256_setzero_ps(); }
  static DSV4_INLINE F Set(float x) { return _mm256_set1_ps(x); }
  static DSV4_INLINE F Load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static DSV4_INLINE void Store(F x, void* p) { _mm256_storeu_ps(static_cast<float*>(p), x); }
  static DSV4_INLINE F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static DSV4_INLINE F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static DSV4_INLINE F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static DSV4_INLINE F Div(F a, F b) { return _mm256_div_ps(a, b); }
  static DSV4_INLINE F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  // b where either is NaN.
  static DSV4_INLINE F Max(F a, F b) { return _mm256_max_ps(a, b); }
  static DSV4_INLINE F Min(F a, F b) { return _mm256_min_ps(a, b); }
  static DSV4_INLINE F Abs(F a) { return _mm256_andnot_ps(Set(-0.0f), a); }
  static DSV4_INLINE F SignOf(F a) { return _mm256_and_ps(Set(-0.0f), a); }
  static DSV4_INLINE F Or(F a, F b) { return _mm256_or_ps(a, b); }
  // a < b ? x : y; NaN counts as not less.
  static DSV4_INLINE F IfLess(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static DSV4_INLINE F IfNan(F a, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  }
  static DSV4_INLINE bool AllEqual(F a, F b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)) == 0xFF;
  }
  // To nearest even, the low `bits` mantissa bits cleared. For finite values away from overflow.
  template <int bits>
  static DSV4_INLINE F RoundMantissa(F x) {
    const __m256i i = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(i, bits), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(i, _mm256_set1_epi32((1 << (bits - 1)) - 1));
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_add_epi32(up, odd), _mm256_set1_epi32(-(1 << bits))));
  }

  // Lanes 4 apart, then 2, then 1.
  static DSV4_INLINE float Sum(F x) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The same of four vectors.
  static DSV4_INLINE __m128 SumFour(const float* lanes) {
    const F s[4] = {Load(lanes), Load(lanes + 8), Load(lanes + 16), Load(lanes + 24)};
    // Lanes 4 apart of two sums a and b in the halves, then 2 and 1 apart.
    const __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(s[0], s[1], 0x20),
                                    _mm256_permute2f128_ps(s[0], s[1], 0x31));
    const __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(s[2], s[3], 0x20),
                                    _mm256_permute2f128_ps(s[2], s[3], 0x31));
    const __m256 two =
        _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    const __m256 one = _mm256_hadd_ps(two, two);  // a c a c | b d b d
    return _mm_unpacklo_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1));
  }
  static DSV4_INLINE float MaxLane(F x) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static DSV4_INLINE Watch NoNan() { return _mm256_setzero_si256(); }
  static DSV4_INLINE bool SawNan(Watch watch) {
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(watch, _mm256_set1_epi8(-1))) != 0;
  }

  static DSV4_INLINE F HalfToFloat(__m128i x) { return _mm256_cvtph_ps(x); }
  static DSV4_INLINE Four HalvesToFloats(__m256i even, __m256i odd) {
    return {
        {HalfToFloat(_mm256_castsi256_si128(even)), HalfToFloat(_mm256_extracti128_si256(even, 1)),
         HalfToFloat(_mm256_castsi256_si128(odd)), HalfToFloat(_mm256_extracti128_si256(odd, 1))}};
  }

  // A group of E4M3 codes (32 bytes) times kFp8Factor: read as the upper bits of fp16, whose
  // exponent is biased by 8 more. A NaN code gives a number, and the watch remembers it.
  static constexpr float kFp8Factor = 0x1p-8f;
  static DSV4_INLINE Four Fp8(const std::byte* p, Watch* watch) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    *watch = _mm256_max_epu8(*watch, _mm256_or_si256(codes, _mm256_set1_epi8(-128)));
    const __m256i keep = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(codes, 8), 1);
    const __m256i odd = _mm256_srai_epi16(codes, 1);
    return HalvesToFloats(_mm256_and_si256(even, keep), _mm256_and_si256(odd, keep));
  }

  // A group of E2M1 codes (16 bytes). The upper byte of the fp16 value comes from a table; the
  // lower one is zero.
  static DSV4_INLINE Four Fp4(const std::byte* p) {
    const __m128i table = _mm_setr_epi8(0, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, -128, -72, -68,
                                        -66, -64, -62, -60, -58);
    const __m128i nibble = _mm_set1_epi8(15);
    const __m128i zero = _mm_setzero_si128();
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i even = _mm_shuffle_epi8(table, _mm_and_si128(codes, nibble));
    const __m128i odd = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(codes, 4), nibble));
    return {{HalfToFloat(_mm_unpacklo_epi8(zero, even)), HalfToFloat(_mm_unpackhi_epi8(zero, even)),
             HalfToFloat(_mm_unpacklo_epi8(zero, odd)), HalfToFloat(_mm_unpackhi_epi8(zero, odd))}};
  }

  static DSV4_INLINE Four Fp4Scaled(const std::byte* p, float first, float second) {
    const Four four = Fp4(p);
    const F s0 = Set(first);
    const F s1 = Set(second);
    return {{Mul(four.v[0], s0), Mul(four.v[1], s1), Mul(four.v[2], s0), Mul(four.v[3], s1)}};
  }

  // A group of bf16 values (64 bytes).
  static DSV4_INLINE Four Bf16s(const std::byte* p) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    const __m256i upper = _mm256_set1_epi32(-65536);
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
             _mm256_castsi256_ps(_mm256_slli_epi32(high, 16)),
             _mm256_castsi256_ps(_mm256_and_si256(low, upper)),
             _mm256_castsi256_ps(_mm256_and_si256(high, upper))}};
  }

  // A group of fp32 values (128 bytes).
  static DSV4_INLINE Four F32s(const std::byte* p) {
    Four result;
    for (int half = 0; half < 2; ++half) {
      const F a = Load(p + half * 64);
      const F b = Load(p + half * 64 + 32);
      const F even = _mm256_shuffle_ps(a, b, 0x88);
      const F odd = _mm256_shuffle_ps(a, b, 0xDD);
      result.v[half] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xD8));
      result.v[2 + half] = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xD8));
    }
    return result;
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
