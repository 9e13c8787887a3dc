// The indexer's scores for AVX-512 with VNNI. Shared headers come before the target region: they
// are baseline code.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the "undefined" operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstring>

#include "base/check.h"
#include "kernels/cpu/row_sets.h"
#include "numeric/e8m0.h"

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

#include "kernels/cpu/vec_vnni.h"
#include "kernels/cpu/vec_words.h"
// After the vectors:
#include "kernels/cpu/row_loops-inl.h"

namespace dsv4::kernels::cpu {
namespace {
using IndexVec = VnniVec;
}  // namespace
}  // namespace dsv4::kernels::cpu

// After the loops:
#include "kernels/cpu/indexer-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

namespace dsv4::kernels::cpu {

void UseVnniIndexScores([[maybe_unused]] Kernels* table) {
#if defined(__x86_64__)
  table->index_scores = IndexScores;
#endif
}

}  // namespace dsv4::kernels::cpu
