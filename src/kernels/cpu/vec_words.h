// Transposes blocks of eight by eight 16-bit words, for both vector widths. Include it inside a
// target region.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace dsv4::kernels::cpu {
namespace {

// Word w of rows[r] + offset goes to out[w * stride + r].
inline void TransposeWords(const std::byte* const* rows, int64_t offset, uint16_t* out,
                           int64_t stride) {
  __m128i a[8], b[8];
  for (int r = 0; r < 8; ++r) {
    a[r] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r] + offset));
  }
  for (int r = 0; r < 4; ++r) {
    b[2 * r] = _mm_unpacklo_epi16(a[r], a[r + 4]);
    b[2 * r + 1] = _mm_unpackhi_epi16(a[r], a[r + 4]);
  }
  for (int r = 0; r < 4; ++r) {
    a[2 * r] = _mm_unpacklo_epi16(b[r], b[r + 4]);
    a[2 * r + 1] = _mm_unpackhi_epi16(b[r], b[r + 4]);
  }
  for (int r = 0; r < 4; ++r) {
    b[2 * r] = _mm_unpacklo_epi16(a[r], a[r + 4]);
    b[2 * r + 1] = _mm_unpackhi_epi16(a[r], a[r + 4]);
  }
  for (int w = 0; w < 8; ++w) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + w * stride), b[w]);
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
