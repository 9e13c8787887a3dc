// The entries other than products for AVX-512 F, BW, DQ and VL. Shared headers come before the
// target region: they are baseline code.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the "undefined" operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
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
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

#include "kernels/cpu/vec_rows_avx512.h"
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

void UseAvx512Rows([[maybe_unused]] Kernels* table) {
#if defined(__x86_64__)
  UseRowEntries(table);
#endif
}

}  // namespace dsv4::kernels::cpu
