#include "kernels/cpu/best.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dsv4::kernels::cpu {

float KeepBest(const float* scores, int32_t* indices, int64_t n, int64_t k) {
  const auto key = [scores](int32_t i) {
    return std::isnan(scores[i]) ? -std::numeric_limits<float>::infinity() : scores[i];
  };
  std::nth_element(indices, indices + (k - 1), indices + n, [key](int32_t a, int32_t b) {
    return key(a) > key(b) || (key(a) == key(b) && a < b);
  });
  return key(indices[k - 1]);
}

void SortIndices(int32_t* indices, int64_t n) { std::sort(indices, indices + n); }

}  // namespace dsv4::kernels::cpu
