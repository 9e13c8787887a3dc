// Sixteen fp32 lanes with AVX-512 F, BW, DQ and VL. Include it inside the target region of
// isa_avx512.cc or isa_avx512_bf16.cc.
//
// A group is 4 * kLanes = 64 elements in four vectors, in order.
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
  // Activation rows of a register tile of 4 weight rows, those of them that have a register of
  // their own besides the sums, and those that take 4 weight rows undecoded.
  static constexpr int kTileRows = 6;
  static constexpr int kHeldRows = 6;
  static constexpr int kDirectRows = 4;

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

  // Whether low <= byte <= high for all n bytes at p.
  static DSV4_INLINE bool BytesWithin(const std::byte* p, int64_t n, int low, int high) {
    const __m512i least = _mm512_set1_epi8(static_cast<char>(low));
    const __m512i most = _mm512_set1_epi8(static_cast<char>(high));
    __mmask64 out = 0;
    for (int64_t i = 0; i < n; i += 64) {
      const __mmask64 mask = n - i >= 64 ? ~uint64_t{0} : (uint64_t{1} << (n - i)) - 1;
      const __m512i bytes = _mm512_maskz_loadu_epi8(mask, p + i);
      out |= _mm512_mask_cmplt_epu8_mask(mask, bytes, least) |
             _mm512_mask_cmpgt_epu8_mask(mask, bytes, most);
    }
    return out == 0;
  }

  // A group of E4M3 codes (64 bytes) times kFp8Factor: read as the upper bits of fp16, whose
  // exponent is biased by 8 more; subnormal codes are subnormals, which a conversion takes at full
  // speed. It does so from memory: from a register it needs a shuffle besides. A NaN code gives a
  // number, and the watch remembers it.
  static constexpr float kFp8Factor = 0x1p-8f;
  static DSV4_INLINE Four Fp8(const std::byte* p, Watch* watch) {
    const __m512i codes = _mm512_loadu_si512(p);
    *watch = _mm512_max_epu8(*watch, _mm512_or_si512(codes, _mm512_set1_epi8(-128)));
    const __m512i keep = _mm512_set1_epi16(static_cast<int16_t>(0xBF80));
    __m512i halves[2];
    for (int i = 0; i < 2; ++i) {
      const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i * 32));
      const __m512i wide = _mm512_slli_epi16(_mm512_cvtepi8_epi16(half), 7);
      halves[i] = _mm512_and_si512(wide, keep);
    }
    __asm__("" : "+m"(halves));
    const auto* const sixteens = reinterpret_cast<const __m256i*>(halves);
    return {{_mm512_cvtph_ps(sixteens[0]), _mm512_cvtph_ps(sixteens[1]),
             _mm512_cvtph_ps(sixteens[2]), _mm512_cvtph_ps(sixteens[3])}};
  }

  static DSV4_INLINE F Fp4Table() {
    return _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f,
                          -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  }
  // A group of E2M1 codes (32 bytes) times the scales of its halves, which are put into the tables.
  // A lookup reads only the low four bits of a lane.
  static DSV4_INLINE Four Fp4Scaled(const std::byte* p, float first, float second) {
    Four four;
    for (int half = 0; half < 2; ++half) {
      const F table = Mul(Fp4Table(), Set(half == 0 ? first : second));
      const __m128i even = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + half * 16));
      const __m128i odd = _mm_srli_epi16(even, 4);
      four.v[2 * half] =
          _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(even, odd)), table);
      four.v[2 * half + 1] =
          _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(_mm_unpackhi_epi8(even, odd)), table);
    }
    return four;
  }
  static DSV4_INLINE Four Fp4(const std::byte* p) { return Fp4Scaled(p, 1.0f, 1.0f); }

  static DSV4_INLINE F WidenBf16s(__m256i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
  // A group of bf16 values (128 bytes).
  static DSV4_INLINE Four Bf16s(const std::byte* p) {
    Four four;
    for (int i = 0; i < 4; ++i) {
      four.v[i] = WidenBf16s(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i * 32)));
    }
    return four;
  }

  // A group of fp32 values (256 bytes).
  static DSV4_INLINE Four F32s(const std::byte* p) {
    return {{Load(p), Load(p + 64), Load(p + 128), Load(p + 192)}};
  }

  // Words of an integer product (integer_path-inl.h): four vectors of int16.
  using I = __m512i;
  struct Words {
    I v[4];
  };
  static DSV4_INLINE I LoadWords(const std::byte* p) { return _mm512_loadu_si512(p); }
  static DSV4_INLINE void StoreWords(I x, std::byte* p) { _mm512_storeu_si512(p, x); }
  // 128 E2M1 codes (64 bytes): the value of code 4w + i times 512 in word w of vector i. Bytes are
  // looked up: VPERMW is two operations on the CPUs at hand.
  static DSV4_INLINE Words Fp4Words(const std::byte* p) {
    const I table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12));
    const I nibble = _mm512_set1_epi8(15);
    const I upper = _mm512_set1_epi16(-256);
    const I codes = LoadWords(p);
    const I even = _mm512_shuffle_epi8(table, _mm512_and_si512(codes, nibble));
    const I odd = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
    return {{_mm512_slli_epi16(even, 8), _mm512_slli_epi16(odd, 8), _mm512_and_si512(even, upper),
             _mm512_and_si512(odd, upper)}};
  }
  // Four E8M0 codes between 1 and 254, each for four lanes.
  static DSV4_INLINE F Fp4Scales(const std::byte* p) {
    int32_t codes;
    std::memcpy(&codes, p, sizeof(codes));
    // Byte b into the top of a lane, zeros below; a shift by one makes an exponent of it.
    constexpr int kTop0 = 0x00FFFFFF, kTop1 = 0x01FFFFFF, kTop2 = 0x02FFFFFF, kTop3 = 0x03FFFFFF;
    const __m512i to_top = _mm512_inserti32x8(
        _mm512_castsi256_si512(
            _mm256_setr_epi32(kTop0, kTop0, kTop0, kTop0, kTop1, kTop1, kTop1, kTop1)),
        _mm256_setr_epi32(kTop2, kTop2, kTop2, kTop2, kTop3, kTop3, kTop3, kTop3), 1);
    const I top = _mm512_shuffle_epi8(_mm512_set1_epi32(codes), to_top);
    return _mm512_castsi512_ps(_mm512_srli_epi32(top, 1));
  }
  // Sum over i of the products of words 2l and 2l + 1 in lane l: exact.
  static DSV4_INLINE F SumWords(const Words& a, const std::byte* b) {
    I sum = _mm512_madd_epi16(a.v[0], LoadWords(b));
    for (int i = 1; i < 4; ++i) {
      sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a.v[i], LoadWords(b + i * 64)));
    }
    return _mm512_cvtepi32_ps(sum);
  }
  static DSV4_INLINE I ToInts(F x) { return _mm512_cvtps_epi32(x); }
  static DSV4_INLINE I OrInts(I a, I b) { return _mm512_or_si512(a, b); }
  static DSV4_INLINE I ShiftRight3(I x) { return _mm512_srai_epi32(x, 3); }
  static DSV4_INLINE I LowThreeBits(I x) { return _mm512_and_si512(x, _mm512_set1_epi32(7)); }
  static DSV4_INLINE bool AnyBit(I x) { return _mm512_test_epi32_mask(x, x) != 0; }
  // The 64 integers of a group as int16: integer 4w + i becomes word w of out + i * stride.
  static DSV4_INLINE void StoreFourths(const I* ints, std::byte* out, int64_t stride) {
    const I every_fourth =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
    const I next = _mm512_add_epi32(every_fourth, _mm512_set1_epi32(2));
    for (int i = 0; i < 4; i += 2) {
      // Integers i, i + 4, … | i + 1, i + 5, … of each half group.
      const I order = i == 0 ? every_fourth : next;
      const __m256i a = _mm512_cvtepi32_epi16(_mm512_permutex2var_epi32(ints[0], order, ints[1]));
      const __m256i b = _mm512_cvtepi32_epi16(_mm512_permutex2var_epi32(ints[2], order, ints[3]));
      StoreHalves(out + i * stride, _mm256_castsi256_si128(a), _mm256_castsi256_si128(b));
      StoreHalves(out + (i + 1) * stride, _mm256_extracti128_si256(a, 1),
                  _mm256_extracti128_si256(b, 1));
    }
  }

 private:
  static DSV4_INLINE void StoreHalves(std::byte* out, __m128i a, __m128i b) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), a);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 16), b);
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
