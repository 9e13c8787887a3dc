// Non-owning views of tensors. They are two words and a shape; whoever made the bytes keeps them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace dsv4 {

// How the elements of a weight matrix are stored.
enum class WeightFormat : uint8_t {
  kFp8,   // E4M3 codes, one scale per block_rows x block_cols tile
  kFp4,   // E2M1 codes packed two to a byte along columns, one scale per row and block_cols columns
  kBf16,  // no scales
  kF32,   // no scales
};

enum class ScaleFormat : uint8_t { kNone, kE8m0, kF32 };

// A linear layer's weight [rows = outputs, cols = inputs], row-major, exactly as in the file.
struct WeightView {
  WeightFormat format = WeightFormat::kBf16;
  ScaleFormat scale_format = ScaleFormat::kNone;
  const std::byte* data = nullptr;
  // [ceil(rows/block_rows), ceil(cols/block_cols)] E8M0 bytes or floats; null without scales.
  const std::byte* scale = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int32_t block_rows = 1;
  int32_t block_cols = 1;

  int64_t scale_cols() const { return (cols + block_cols - 1) / block_cols; }
  int64_t row_bytes() const {
    switch (format) {
      case WeightFormat::kFp8:
        return cols;
      case WeightFormat::kFp4:
        return cols / 2;
      case WeightFormat::kBf16:
        return cols * 2;
      case WeightFormat::kF32:
        return cols * 4;
    }
    return 0;
  }
  std::span<const std::byte> bytes() const {
    return {data, static_cast<size_t>(rows * row_bytes())};
  }
  // All scales; empty without.
  std::span<const std::byte> scale_bytes() const {
    const int64_t scale_rows = (rows + block_rows - 1) / block_rows;
    return {scale, static_cast<size_t>(scale_rows * scale_cols() * bytes_per_scale())};
  }
  // What reading `count` rows takes, their share of the scales included.
  int64_t bytes_of_rows(int64_t count) const {
    return count * row_bytes() + count * scale_cols() * bytes_per_scale() / block_rows;
  }
  int64_t bytes_per_scale() const {
    return scale_format == ScaleFormat::kNone ? 0 : scale_format == ScaleFormat::kE8m0 ? 1 : 4;
  }
};

}  // namespace dsv4
