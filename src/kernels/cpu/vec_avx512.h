// Sixteen fp32 lanes with AVX-512 F, BW, DQ and VL. Include it inside the target region of
// isa_avx512.cc or isa_avx512_bf16.cc.
//
// A group is 4 * kLanes = 64 elements. Its four vectors hold the elements 0,2..30 | 32,34..62 |
// 1,3..31 | 33,35..63: the order in which codes unpack without shuffles, the same for all formats.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define DSV4_INLINE inline __attribute__((always_inline))

namespace dsv4::kernels::cpu {
namespace {

struct Vec {
  static constexpr int kLanes = 16;
  static constexpr int kGroup = 4 * kLanes;
  static constexpr int kTileRows = 6;  // activation rows of a register tile of 4 weight rows

  using F = __m512;
  struct Four {
    F v[4];
  };
  // Largest code seen, the sign set: 0xFF in a byte after an E4M3 NaN.
  using Watch = __m512i;

  static DSV4_INLINE F Zero() { return _mm512_setzero_ps(); }
  static DSV4_INLINE F Set(float x) { return _mm512_set1_ps(x); }
  static DSV4_INLINE F Load(const void* p) { return _mm512_loadu_ps(p); }
  static DSV4_INLINE void Store(F x, void* p) { _mm512_storeu_ps(p, x); }
  static DSV4_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static DSV4_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static DSV4_INLINE F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static DSV4_INLINE F Div(F a, F b) { return _mm512_div_ps(a, b); }
  static DSV4_INLINE F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  // b where either is NaN.
  static DSV4_INLINE F Max(F a, F b) { return _mm512_max_ps(a, b); }
  static DSV4_INLINE F Min(F a, F b) { return _mm512_min_ps(a, b); }
  static DSV4_INLINE F Abs(F a) { return _mm512_abs_ps(a); }
  static DSV4_INLINE F SignOf(F a) { return _mm512_and_ps(Set(-0.0f), a); }
  static DSV4_INLINE F Or(F a, F b) { return _mm512_or_ps(a, b); }
  // a < b ? x : y; NaN counts as not less.
  static DSV4_INLINE F IfLess(F a, F b, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  static DSV4_INLINE F IfNan(F a, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), y, x);
  }
  static DSV4_INLINE bool AllEqual(F a, F b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ) == 0xFFFF;
  }
  // To nearest even, the low `bits` mantissa bits cleared. For finite values away from overflow.
  template <int bits>
  static DSV4_INLINE F RoundMantissa(F x) {
    const __m512i i = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(i, bits), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(i, _mm512_set1_epi32((1 << (bits - 1)) - 1));
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_add_epi32(up, odd), _mm512_set1_epi32(-(1 << bits))));
  }

  // Lanes 8 apart, then 4, 2, 1.
  static DSV4_INLINE float Sum(F x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // The same of four vectors.
  static DSV4_INLINE __m128 SumFour(const float* lanes) {
    __m256 s[4];
    for (int i = 0; i < 4; ++i) {
      s[i] = _mm256_add_ps(_mm256_loadu_ps(lanes + i * 16), _mm256_loadu_ps(lanes + i * 16 + 8));
    }
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
  static DSV4_INLINE float MaxLane(F x) { return _mm512_reduce_max_ps(x); }

  static DSV4_INLINE Watch NoNan() { return _mm512_setzero_si512(); }
  static DSV4_INLINE bool SawNan(Watch watch) {
    return _mm512_cmpeq_epi8_mask(watch, _mm512_set1_epi8(-1)) != 0;
  }

  static DSV4_INLINE Four HalvesToFloats(__m512i even, __m512i odd) {
    return {{_mm512_cvtph_ps(_mm512_castsi512_si256(even)),
             _mm512_cvtph_ps(_mm512_extracti64x4_epi64(even, 1)),
             _mm512_cvtph_ps(_mm512_castsi512_si256(odd)),
             _mm512_cvtph_ps(_mm512_extracti64x4_epi64(odd, 1))}};
  }

  // A group of E4M3 codes (64 bytes) times kFp8Factor: read as the upper bits of fp16, whose
  // exponent is biased by 8 more. A NaN code gives a number, and the watch remembers it.
  static constexpr float kFp8Factor = 0x1p-8f;
  static DSV4_INLINE Four Fp8(const std::byte* p, Watch* watch) {
    const __m512i codes = _mm512_loadu_si512(p);
    *watch = _mm512_max_epu8(*watch, _mm512_or_si512(codes, _mm512_set1_epi8(-128)));
    const __m512i keep = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
    const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(codes, 8), 1);
    const __m512i odd = _mm512_srai_epi16(codes, 1);
    return HalvesToFloats(_mm512_and_si512(even, keep), _mm512_and_si512(odd, keep));
  }

  static DSV4_INLINE F Fp4Table() {
    return _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f,
                          -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  }
  // A group of E2M1 codes (32 bytes) times the scales of its halves, which are put into the tables.
  // A lookup reads only the low four bits of a lane.
  static DSV4_INLINE Four Fp4Scaled(const std::byte* p, float first, float second) {
    const F low_table = Mul(Fp4Table(), Set(first));
    const F high_table = Mul(Fp4Table(), Set(second));
    const auto* const q = reinterpret_cast<const __m128i*>(p);
    const __m512i low = _mm512_cvtepu8_epi32(_mm_loadu_si128(q));
    const __m512i high = _mm512_cvtepu8_epi32(_mm_loadu_si128(q + 1));
    return {{_mm512_permutexvar_ps(low, low_table), _mm512_permutexvar_ps(high, high_table),
             _mm512_permutexvar_ps(_mm512_srli_epi32(low, 4), low_table),
             _mm512_permutexvar_ps(_mm512_srli_epi32(high, 4), high_table)}};
  }
  static DSV4_INLINE Four Fp4(const std::byte* p) { return Fp4Scaled(p, 1.0f, 1.0f); }

  static DSV4_INLINE F EvenBf16s(__m512i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
  }
  static DSV4_INLINE F OddBf16s(__m512i x) {
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-65536)));
  }
  // A group of bf16 values (128 bytes).
  static DSV4_INLINE Four Bf16s(const std::byte* p) {
    const __m512i low = _mm512_loadu_si512(p);
    const __m512i high = _mm512_loadu_si512(p + 64);
    return {{EvenBf16s(low), EvenBf16s(high), OddBf16s(low), OddBf16s(high)}};
  }

  // A group of fp32 values (256 bytes).
  static DSV4_INLINE Four F32s(const std::byte* p) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const F a = Load(p), b = Load(p + 64), c = Load(p + 128), d = Load(p + 192);
    return {{_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(c, even, d),
             _mm512_permutex2var_ps(a, odd, b), _mm512_permutex2var_ps(c, odd, d)}};
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
