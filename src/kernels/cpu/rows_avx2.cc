// The entries other than products for AVX2, FMA and F16C. Shared headers come before the target
// region: they are baseline code.
#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/best.h"
#include "kernels/cpu/row_sets.h"
#include "kernels/ref/ref.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "kernels/cpu/vec_rows_avx2.h"
#include "kernels/cpu/vec_words.h"
// After the vectors:
#include "kernels/cpu/e4m3-inl.h"
#include "kernels/cpu/row_loops-inl.h"

namespace dsv4::kernels::cpu {
namespace {
using IndexVec = RowVec;
}  // namespace
}  // namespace dsv4::kernels::cpu

// After the loops:
#include "kernels/cpu/hyper_connection-inl.h"
#include "kernels/cpu/indexer-inl.h"
#include "kernels/cpu/moe-inl.h"
#include "kernels/cpu/norm-inl.h"
#include "kernels/cpu/quant-inl.h"
#include "kernels/cpu/selection-inl.h"
// After quant:
#include "kernels/cpu/attention-inl.h"
// After all:
#include "kernels/cpu/row_set-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

namespace dsv4::kernels::cpu {

void UseAvx2Rows([[maybe_unused]] Kernels* table) {
#if defined(__x86_64__)
  UseRowEntries(table);
#endif
}

}  // namespace dsv4::kernels::cpu
