// FP4 weights rewritten as FP8 without loss (spec: converted checkpoints).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace dsv4 {

inline constexpr int64_t kFp8Tile = 128;

// From E2M1 codes [rows, cols / 2] (two to a byte, low nibble first) with E8M0 scales [rows, cols /
// 32] to E4M3 codes [rows, cols] with E8M0 scales [ceil(rows / 128), ceil(cols / 128)]. Per tile
// the new scale is the largest old one times 2^-6; minus zero becomes zero. An error, naming row
// and column, where a value would not be exact; the output is then unspecified.
Status ConvertFp4ToFp8(std::span<const std::byte> packed, std::span<const std::byte> scales,
                       int64_t rows, int64_t cols, std::span<std::byte> codes,
                       std::span<std::byte> tile_scales);

}  // namespace dsv4
