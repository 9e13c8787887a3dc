// MaddDots (integer_path-inl.h) with AVX-512 VNNI: the same whole numbers in fewer instructions.
// Include it inside the target region, after integer_path-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

struct VnniDots {
  static DSV4_INLINE Vec::F Sum(const Vec::Words& a, const std::byte* b) {
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < 4; ++i) {
      sum = _mm512_dpwssd_epi32(sum, a.v[i], Vec::LoadWords(b + i * kWordVectorBytes));
    }
    return _mm512_cvtepi32_ps(sum);
  }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
