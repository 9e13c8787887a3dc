#include "ops/claims.h"

#include <algorithm>

namespace dsv4 {

int64_t Grain(int64_t count, int64_t work_per_item, int num_threads) {
  constexpr int64_t kClaimWork = int64_t{1} << 15;
  const int64_t worthwhile = kClaimWork / std::max<int64_t>(work_per_item, 1) + 1;
  const int64_t fair = (count + num_threads * 4 - 1) / (num_threads * 4);
  return std::max(worthwhile, fair);
}

int64_t ProductGrain(int64_t weight_rows, int64_t num_rows, int num_threads) {
  // What products walk best (kernels/cpu/product-inl.h): segments of a tile of scales for one row,
  // two bands for more.
  const int64_t unit = num_rows == 1 ? 128 : 96;
  constexpr int64_t kMostUnits = 8;
  const int64_t claims = int64_t{num_threads} * 8;
  const int64_t units = std::clamp<int64_t>(weight_rows / (claims * unit), 1, kMostUnits);
  // Few rows are shared out in fours, down to one four for a thread.
  const int64_t fair = (weight_rows / num_threads + 3) / 4 * 4;
  return std::min(units * unit, std::max<int64_t>(fair, 4));
}

}  // namespace dsv4
