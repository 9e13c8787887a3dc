// Dot products of bytes with AVX-512 VNNI: the same whole numbers in fewer instructions. Include it
// inside the target region.
#pragma once

#include "kernels/cpu/vec_rows_avx512.h"

namespace dsv4::kernels::cpu {
namespace {

struct VnniVec : RowVec {
  static DSV4_INLINE I DotStart(int32_t start) { return _mm512_set1_epi32(start); }
  static DSV4_INLINE I DotAdd(I sum, I keys, I q) { return _mm512_dpbusd_epi32(sum, keys, q); }
  static DSV4_INLINE F DotSum(I sum) { return _mm512_cvtepi32_ps(sum); }
};

}  // namespace
}  // namespace dsv4::kernels::cpu
