// Eight fp32 lanes with AVX2, FMA and F16C. Include it inside the target region of isa_avx2.cc.
//
// A group is 4 * kLanes = 32 elements in four vectors, in order.
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
  // Activation rows of a register tile of 4 weight rows, those of them that have a register of
  // their own besides the sums, and those that take 4 weight rows undecoded.
  static constexpr int kTileRows = 3;
  static constexpr int kHeldRows = 2;
  static constexpr int kDirectRows = 2;

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

  // Whether low <= byte <= high for all n bytes at p.
  static DSV4_INLINE bool BytesWithin(const std::byte* p, int64_t n, int low, int high) {
    const __m256i least = _mm256_set1_epi8(static_cast<char>(low));
    const __m256i most = _mm256_set1_epi8(static_cast<char>(high));
    __m256i in = _mm256_set1_epi8(-1);
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i));
      const __m256i clamped = _mm256_min_epu8(_mm256_max_epu8(bytes, least), most);
      in = _mm256_and_si256(in, _mm256_cmpeq_epi8(clamped, bytes));
    }
    bool all = _mm256_movemask_epi8(in) == -1;
    for (; i < n; ++i) all &= static_cast<int>(p[i]) >= low && static_cast<int>(p[i]) <= high;
    return all;
  }

  // A group of E4M3 codes (32 bytes) times kFp8Factor: read as the upper bits of fp16, whose
  // exponent is biased by 8 more; subnormal codes are subnormals, which a conversion takes at full
  // speed. It does so from memory: from a register it needs a shuffle besides. A NaN code gives a
  // number, and the watch remembers it.
  static constexpr float kFp8Factor = 0x1p-8f;
  static DSV4_INLINE Four Fp8(const std::byte* p, Watch* watch) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    *watch = _mm256_max_epu8(*watch, _mm256_or_si256(codes, _mm256_set1_epi8(-128)));
    const __m256i keep = _mm256_set1_epi16(static_cast<int16_t>(0xBF80));
    __m256i halves[2];
    for (int i = 0; i < 2; ++i) {
      const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * 16));
      const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(sixteen), 7);
      halves[i] = _mm256_and_si256(wide, keep);
    }
    __asm__("" : "+m"(halves));
    const auto* const eights = reinterpret_cast<const __m128i*>(halves);
    return {{_mm256_cvtph_ps(eights[0]), _mm256_cvtph_ps(eights[1]), _mm256_cvtph_ps(eights[2]),
             _mm256_cvtph_ps(eights[3])}};
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
    const __m128i low = _mm_unpacklo_epi8(even, odd);
    const __m128i high = _mm_unpackhi_epi8(even, odd);
    return {{_mm256_cvtph_ps(_mm_unpacklo_epi8(zero, low)),
             _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, low)),
             _mm256_cvtph_ps(_mm_unpacklo_epi8(zero, high)),
             _mm256_cvtph_ps(_mm_unpackhi_epi8(zero, high))}};
  }

  static DSV4_INLINE Four Fp4Scaled(const std::byte* p, float first, float second) {
    const Four four = Fp4(p);
    const F s0 = Set(first);
    const F s1 = Set(second);
    return {{Mul(four.v[0], s0), Mul(four.v[1], s0), Mul(four.v[2], s1), Mul(four.v[3], s1)}};
  }

  // A group of bf16 values (64 bytes).
  static DSV4_INLINE Four Bf16s(const std::byte* p) {
    Four four;
    for (int i = 0; i < 4; ++i) {
      const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i * 16));
      four.v[i] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
    }
    return four;
  }

  // A group of fp32 values (128 bytes).
  static DSV4_INLINE Four F32s(const std::byte* p) {
    return {{Load(p), Load(p + 32), Load(p + 64), Load(p + 96)}};
  }

  // Words of an integer product (integer_path-inl.h): four vectors of int16.
  using I = __m256i;
  struct Words {
    I v[4];
  };
  static DSV4_INLINE I LoadWords(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const I*>(p));
  }
  static DSV4_INLINE void StoreWords(I x, std::byte* p) {
    _mm256_storeu_si256(reinterpret_cast<I*>(p), x);
  }
  // 64 E2M1 codes (32 bytes): the value of code 4w + i times 512 in word w of vector i.
  static DSV4_INLINE Words Fp4Words(const std::byte* p) {
    const __m128i half = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const I table = _mm256_broadcastsi128_si256(half);
    const I nibble = _mm256_set1_epi8(15);
    const I upper = _mm256_set1_epi16(-256);
    const I codes = LoadWords(p);
    const I even = _mm256_shuffle_epi8(table, _mm256_and_si256(codes, nibble));
    const I odd = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble));
    return {{_mm256_slli_epi16(even, 8), _mm256_slli_epi16(odd, 8), _mm256_and_si256(even, upper),
             _mm256_and_si256(odd, upper)}};
  }
  // Two E8M0 codes between 1 and 254, each for four lanes.
  static DSV4_INLINE F Fp4Scales(const std::byte* p) {
    int16_t codes;
    std::memcpy(&codes, p, sizeof(codes));
    // Byte b into the top of a lane, zeros below; a shift by one makes an exponent of it.
    constexpr int kTop0 = 0x00FFFFFF, kTop1 = 0x01FFFFFF;
    const I to_top = _mm256_setr_epi32(kTop0, kTop0, kTop0, kTop0, kTop1, kTop1, kTop1, kTop1);
    const I top = _mm256_shuffle_epi8(_mm256_set1_epi16(codes), to_top);
    return _mm256_castsi256_ps(_mm256_srli_epi32(top, 1));
  }
  // Sum over i of the products of words 2l and 2l + 1 in lane l: exact.
  static DSV4_INLINE F SumWords(const Words& a, const std::byte* b) {
    I sum = _mm256_madd_epi16(a.v[0], LoadWords(b));
    for (int i = 1; i < 4; ++i) {
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a.v[i], LoadWords(b + i * 32)));
    }
    return _mm256_cvtepi32_ps(sum);
  }
  static DSV4_INLINE I ToInts(F x) { return _mm256_cvtps_epi32(x); }
  static DSV4_INLINE I OrInts(I a, I b) { return _mm256_or_si256(a, b); }
  static DSV4_INLINE I ShiftRight3(I x) { return _mm256_srai_epi32(x, 3); }
  static DSV4_INLINE I LowThreeBits(I x) { return _mm256_and_si256(x, _mm256_set1_epi32(7)); }
  static DSV4_INLINE bool AnyBit(I x) { return _mm256_testz_si256(x, x) == 0; }
  // The 32 integers of a group as int16: integer 4w + i becomes word w of out + i * stride.
  static DSV4_INLINE void StoreFourths(const I* ints, std::byte* out, int64_t stride) {
    // Words 0,4 | 1,5 | 2,6 | 3,7 of eight.
    const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
    __m128i r[4];
    for (int i = 0; i < 4; ++i) {
      const __m128i eight =
          _mm_packs_epi32(_mm256_castsi256_si128(ints[i]), _mm256_extracti128_si256(ints[i], 1));
      r[i] = _mm_shuffle_epi8(eight, order);
    }
    const __m128i low01 = _mm_unpacklo_epi32(r[0], r[1]), high01 = _mm_unpackhi_epi32(r[0], r[1]);
    const __m128i low23 = _mm_unpacklo_epi32(r[2], r[3]), high23 = _mm_unpackhi_epi32(r[2], r[3]);
    const __m128i fourths[4] = {_mm_unpacklo_epi64(low01, low23), _mm_unpackhi_epi64(low01, low23),
                                _mm_unpacklo_epi64(high01, high23),
                                _mm_unpackhi_epi64(high01, high23)};
    for (int i = 0; i < 4; ++i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * stride), fourths[i]);
    }
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
