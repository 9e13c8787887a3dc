// What top_k does rarely; baseline code.
#pragma once

#include <cstdint>

namespace dsv4::kernels::cpu {

// Moves the k best of n indices to the front, in any order: larger score first, NaN as -inf, among
// equals the smaller index. 0 < k <= n. Returns the score of the worst of them.
float KeepBest(const float* scores, int32_t* indices, int64_t n, int64_t k);

void SortIndices(int32_t* indices, int64_t n);

}  // namespace dsv4::kernels::cpu
