// The set "avx2". Shared headers come before the target region: they are baseline code.
#include <immintrin.h>

#include <cstring>
#include <limits>

#include "kernels/cpu/careful.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/row_sets.h"
#include "kernels/ref/ref.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "kernels/cpu/vec_avx2.h"
// After the vectors:
#include "kernels/cpu/e4m3-inl.h"
#include "kernels/cpu/weights-inl.h"
// After the weights:
#include "kernels/cpu/prepare-inl.h"
#include "kernels/cpu/product-inl.h"
// After the walk:
#include "kernels/cpu/float_path-inl.h"
#include "kernels/cpu/integer_path-inl.h"

namespace dsv4::kernels::cpu {
namespace {
using Dots = MaddDots;
}  // namespace
}  // namespace dsv4::kernels::cpu

// After the paths:
#include "kernels/cpu/float_set-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

namespace dsv4::kernels::cpu {

const Kernels& Avx2Table() {
  static const Kernels table = [] {
    Kernels own = ref::Table();
    own.name = "avx2";
#if defined(__x86_64__)
    UseProducts(&own);
    UseAvx2Rows(&own);
#endif
    return own;
  }();
  return table;
}

}  // namespace dsv4::kernels::cpu
