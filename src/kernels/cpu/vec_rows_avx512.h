// What the entries other than products need beyond vec_avx512.h: rows of bf16 with ragged ends,
// codes in natural order, eight double sums, integers. Include it inside the target region, after
// vec_avx512.h.
#pragma once

#include "kernels/cpu/vec_avx512.h"
#include "numeric/bf16.h"

namespace dsv4::kernels::cpu {
namespace {

struct RowVec : Vec {
  static constexpr int kHeadTile = 6;    // heads by four rows of dot products in registers
  static constexpr int kValueHeads = 6;  // heads by kValueVecs vectors of weighted sums
  static constexpr int kValueVecs = 4;
  static constexpr int kIndexHeads = 8;  // index heads by two vectors of keys

  using I = __m512i;
  static constexpr int kAllLanes = 0xFFFF;

  static DSV4_INLINE __mmask16 First(int64_t n) {
    return static_cast<__mmask16>((1u << static_cast<unsigned>(n)) - 1u);
  }
  // The first n of sixteen; the rest zero.
  static DSV4_INLINE F LoadPart(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(First(n), p);
  }
  static DSV4_INLINE void StorePart(F x, float* p, int64_t n) {
    _mm512_mask_storeu_ps(p, First(n), x);
  }
  static DSV4_INLINE F FromBf16(__m256i half) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
  }
  static DSV4_INLINE F LoadBf16(const void* p) {
    return FromBf16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  static DSV4_INLINE F LoadBf16Part(const void* p, int64_t n) {
    return FromBf16(_mm256_maskz_loadu_epi16(First(n), p));
  }
  // As ToBf16, NaN too; in the upper halves.
  static DSV4_INLINE I RoundBits(F x) {
    const I bits = _mm512_castps_si512(x);
    const I odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const I up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits,
                                _mm512_set1_epi32(0x400000));
  }
  static DSV4_INLINE __m256i Bf16Bits(F x) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(RoundBits(x), 16));
  }
  static DSV4_INLINE F RoundToBf16Lanes(F x) {
    return _mm512_castsi512_ps(_mm512_and_si512(RoundBits(x), _mm512_set1_epi32(-65536)));
  }
  static DSV4_INLINE void StoreBf16(F x, void* p) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), Bf16Bits(x));
  }
  static DSV4_INLINE void StoreBf16Part(F x, void* p, int64_t n) {
    _mm256_mask_storeu_epi16(p, First(n), Bf16Bits(x));
  }

  static DSV4_INLINE F Negate(F x) { return _mm512_xor_ps(x, Set(-0.0f)); }
  static DSV4_INLINE F IfEqual(F a, F b, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), y, x);
  }
  static DSV4_INLINE F RoundToInteger(F x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // x * 2^n for whole n, rounded once.
  static DSV4_INLINE F TimesPowerOfTwo(F x, F n) { return _mm512_scalef_ps(x, n); }
  // One bit per lane: a > b; NaN counts as not greater.
  static DSV4_INLINE int Greater(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }

  static DSV4_INLINE __m256 Halved(F x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  }
  // Lanes 8 apart, then 4, 2, 1.
  static DSV4_INLINE float LaneSum(F x) {
    const __m256 eight = Halved(x);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  // Sums of four vectors: lanes 8 apart, then neighbouring ones.
  static DSV4_INLINE void StoreSums(F a, F b, F c, F d, float* p) {
    const __m256 four =
        _mm256_hadd_ps(_mm256_hadd_ps(Halved(a), Halved(b)), _mm256_hadd_ps(Halved(c), Halved(d)));
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(four), _mm256_extractf128_ps(four, 1)));
  }

  // Lane i takes lane i ^ half; kLanes > half.
  template <int half>
  static DSV4_INLINE F ExchangeLanes(F x) {
    if constexpr (half == 1) return _mm512_permute_ps(x, 0xB1);
    if constexpr (half == 2) return _mm512_permute_ps(x, 0x4E);
    if constexpr (half == 4) return _mm512_shuffle_f32x4(x, x, 0xB1);
    return _mm512_shuffle_f32x4(x, x, 0x4E);
  }
  // The sign bit in the lanes i with (i & half) != 0.
  template <int half>
  static DSV4_INLINE F UpperSigns() {
    constexpr auto kUpper = static_cast<__mmask16>(half == 1   ? 0xAAAA
                                                   : half == 2 ? 0xCCCC
                                                   : half == 4 ? 0xF0F0
                                                               : 0xFF00);
    return _mm512_maskz_mov_ps(kUpper, Set(-0.0f));
  }
  static DSV4_INLINE F Xor(F a, F b) { return _mm512_xor_ps(a, b); }
  // p[0], p[0], p[1], p[1], …; n values, zeros behind.
  static DSV4_INLINE F Doubled(const float* p, int64_t n) {
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7),
                                 LoadPart(p, n));
  }

  // Sums of squares in double, element k in sum k mod 8: kLanes elements at a time.
  struct Squares {
    __m512d sums;
    // Written out: an implicit one would not belong to the target region.
    DSV4_INLINE Squares() : sums(_mm512_setzero_pd()) {}
    DSV4_INLINE void Add(F x) {
      const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
      const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
      sums = _mm512_fmadd_pd(b, b, _mm512_fmadd_pd(a, a, sums));
    }
    DSV4_INLINE void Get(double* to) const { _mm512_storeu_pd(to, sums); }
  };

  // E4M3 rounding of finite 2^-6 <= x <= 448.
  // Codes of values that RoundToE4m3 gave; n of them.
  static DSV4_INLINE void StoreE4m3Codes(F rounded, uint8_t* p, int64_t n) {
    const F magnitude = Abs(rounded);
    const I normal = _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(magnitude), 20),
                                      _mm512_set1_epi32(120 << 3));
    const I subnormal = _mm512_cvtps_epi32(Mul(magnitude, Set(0x1p9f)));
    I code = _mm512_mask_mov_epi32(normal, _mm512_cmp_ps_mask(magnitude, Set(0x1p-6f), _CMP_LT_OQ),
                                   subnormal);
    code = _mm512_mask_mov_epi32(code, _mm512_cmp_ps_mask(rounded, rounded, _CMP_UNORD_Q),
                                 _mm512_set1_epi32(0x7F));
    const I sign = _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(rounded), 24),
                                    _mm512_set1_epi32(0x80));
    _mm512_mask_cvtepi32_storeu_epi8(p, First(n), _mm512_or_si512(code, sign));
  }
  static DSV4_INLINE I Count(I counts, __mmask16 is_true) {
    return _mm512_mask_add_epi32(counts, is_true, counts, _mm512_set1_epi32(1));
  }
  // E2M1 codes of x, two to a byte. NaN lies beyond all borders.
  static DSV4_INLINE void StoreE2m1Codes(F x, std::byte* p) {
    const F m = Abs(x);
    I code = Count(_mm512_setzero_si512(), _mm512_cmp_ps_mask(m, Set(0.25f), _CMP_NLE_UQ));
    code = Count(code, _mm512_cmp_ps_mask(m, Set(0.75f), _CMP_NLT_UQ));
    code = Count(code, _mm512_cmp_ps_mask(m, Set(1.25f), _CMP_NLE_UQ));
    code = Count(code, _mm512_cmp_ps_mask(m, Set(1.75f), _CMP_NLT_UQ));
    code = Count(code, _mm512_cmp_ps_mask(m, Set(2.5f), _CMP_NLE_UQ));
    code = Count(code, _mm512_cmp_ps_mask(m, Set(3.5f), _CMP_NLT_UQ));
    code = Count(code, _mm512_cmp_ps_mask(m, Set(5.0f), _CMP_NLE_UQ));
    const I sign =
        _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(x), 28), _mm512_set1_epi32(8));
    code = _mm512_or_si512(code, sign);
    const I pairs = _mm512_or_si512(code, _mm512_srli_epi64(code, 28));  // in the lowest bytes
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm512_cvtepi64_epi8(pairs));
  }

  // kLanes E4M3 codes.
  static DSV4_INLINE F LoadE4m3(const std::byte* p) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m256i half = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7),
                                          _mm256_set1_epi16(static_cast<int16_t>(0xBF80)));
    const F x = Mul(_mm512_cvtph_ps(half), Set(0x1p8f));
    return IfEqual(Abs(x), Set(480.0f), Set(__builtin_nanf("")), x);
  }
  // kLanes E2M1 codes.
  static DSV4_INLINE F LoadE2m1(const std::byte* p) {
    int32_t codes[2];
    std::memcpy(codes, p, sizeof(codes));
    const I both = _mm512_inserti64x4(_mm512_set1_epi32(codes[0]), _mm256_set1_epi32(codes[1]), 1);
    const I shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const F table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f,
                                   -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    return _mm512_permutexvar_ps(_mm512_srlv_epi32(both, shifts), table);
  }

  // Index keys. A lane holds four columns of one key as bytes 0…24: twice the value plus 12.
  static DSV4_INLINE I ZeroI() { return _mm512_setzero_si512(); }
  static DSV4_INLINE I SetI(int32_t x) { return _mm512_set1_epi32(x); }
  static DSV4_INLINE I LoadI(const void* p) { return _mm512_loadu_si512(p); }
  static DSV4_INLINE void StoreI(I x, void* p) { _mm512_storeu_si512(p, x); }
  // Spreads the four codes in the lower half of each lane.
  static DSV4_INLINE I KeyBytes(I lanes) {
    const __m128i values = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    const I pairs = _mm512_and_si512(_mm512_or_si512(lanes, _mm512_slli_epi32(lanes, 8)),
                                     _mm512_set1_epi32(0x00FF00FF));
    const I codes = _mm512_and_si512(_mm512_or_si512(pairs, _mm512_slli_epi32(pairs, 4)),
                                     _mm512_set1_epi32(0x0F0F0F0F));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), codes);
  }
  // The first n of sixteen 16-bit words, one to a lane.
  static DSV4_INLINE I LoadWords(const void* p, int64_t n) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(First(n), p));
  }
  static DSV4_INLINE I LoadWords(const void* p) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  // Products of keys with query bytes, -24…24: in pairs of 16-bit sums, from the low half of
  // `start` on. DotSum makes one float of each lane.
  static DSV4_INLINE I DotStart(int32_t start) { return _mm512_set1_epi32(start & 0xFFFF); }
  static DSV4_INLINE I SubtractBytes(I a, I b) { return _mm512_sub_epi8(a, b); }
  static DSV4_INLINE I DotAdd(I sum, I keys, I q) {
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(keys, q));
  }
  static DSV4_INLINE F DotSum(I sum) {
    return _mm512_cvtepi32_ps(_mm512_madd_epi16(sum, _mm512_set1_epi16(1)));
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
