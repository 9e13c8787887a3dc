// Which tensors a converted file of one rank holds, and how each is made from the checkpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

namespace dsv4 {

struct ConvertedTensor {
  enum class Action {
    kCopy,        // the part of the source that begins at (first_row, first_col)
    kDequantize,  // E4M3 codes times their scales, as bf16; rows from first_row
    kFp8Codes,    // packed FP4 as E4M3 codes
    kFp8Scales,   // the scales of those
  };
  TensorInfo info;  // canonical name, type and shape in the converted file; without data
  Action action = Action::kCopy;
  const TensorInfo* source = nullptr;
  const TensorInfo* weight = nullptr;  // kFp8Scales: the packed FP4
  const TensorInfo* scale = nullptr;   // kDequantize, kFp8Codes
  int64_t first_row = 0;
  int64_t first_col = 0;
};

struct ConvertRules {
  int64_t num_experts = 0;
  int world = 1;
  bool fp8_experts = false;
  // Rows and columns under one scale of an FP8 weight.
  int64_t block_rows = 128;
  int64_t block_cols = 128;
};

// In the checkpoint's order. `tensors` are those of the checkpoint.
Result<std::vector<ConvertedTensor>> PlanConversion(const Checkpoint& checkpoint,
                                                    const TensorsByName& tensors,
                                                    const ConvertRules& rules, int rank);

}  // namespace dsv4
