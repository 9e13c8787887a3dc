// How tensors are divided over the ranks of a model-parallel run.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace dsv4 {

enum class ShardAxis {
  kWhole,    // every rank has all of it
  kRows,     // the first axis: embed, head, wq_b, wo_a, attn_sink, the indexer's wq_b, weights_proj
  kColumns,  // the second axis: wo_b
  kExperts,  // whole, on the rank that has the expert
};

// By canonical name (names.h). A weight's scale is divided as the weight is.
ShardAxis ShardAxisOf(std::string_view canonical_name);

// E of "….ffn.experts.E.…"; nullopt for all other tensors.
std::optional<int64_t> ExpertOf(std::string_view canonical_name);

struct ShardRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// The rank's part of `extent`: equal contiguous parts; an error where world does not divide it.
Result<ShardRange> ShardRangeOf(int64_t extent, int rank, int world);

}  // namespace dsv4
