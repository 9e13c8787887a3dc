// How much of an operation a thread claims at once.
#pragma once

#include <cstdint>

namespace dsv4 {

// Items of `work_per_item` elementary steps, `count` of them in all: a claim is worth its cost, and
// every thread gets some.
int64_t Grain(int64_t count, int64_t work_per_item, int num_threads);

// Weight rows of a product with num_rows activation rows, `weight_rows` of them in all.
int64_t ProductGrain(int64_t weight_rows, int64_t num_rows, int num_threads);

// Keys that the indexer scores.
inline constexpr int64_t kIndexKeysPerClaim = 2048;

}  // namespace dsv4
