#include "checkpoint/fp4_to_fp8.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4 {
namespace {

constexpr int64_t kFp4Block = 32;
// 6 * 2^6 = 384 is within E4M3's 448.
constexpr int kScaleShift = 6;
constexpr int kE8m0Nan = 0xFF;

struct Weight {
  std::span<const std::byte> packed;
  std::span<const std::byte> scales;
  int64_t rows;
  int64_t cols;

  int ScaleCode(int64_t row, int64_t col) const {
    return std::to_integer<int>(
        scales[static_cast<size_t>(row * (cols / kFp4Block) + col / kFp4Block)]);
  }
  float Value(int64_t row, int64_t col) const {
    const auto byte = std::to_integer<uint8_t>(packed[static_cast<size_t>((row * cols + col) / 2)]);
    return DecodeE2m1(static_cast<uint8_t>(byte >> (col % 2 * 4)));
  }
};

// The E8M0 code of the new scale of the tile at (row, col).
Result<int> TileScale(const Weight& w, int64_t row, int64_t col) {
  int largest = 0;
  for (int64_t r = row; r < std::min(row + kFp8Tile, w.rows); ++r) {
    for (int64_t c = col; c < std::min(col + kFp8Tile, w.cols); c += kFp4Block) {
      const int code = w.ScaleCode(r, c);
      if (code == kE8m0Nan) return BadInput("row {}, column {}: the FP4 scale is NaN", r, c);
      largest = std::max(largest, code);
    }
  }
  if (largest < kScaleShift) {
    return BadInput("tile at row {}, column {}: its largest scale 2^{} is too small for FP8", row,
                    col, largest - 127);
  }
  return largest - kScaleShift;
}

Status ConvertTile(const Weight& w, int64_t row, int64_t col, int tile_scale,
                   std::span<std::byte> codes) {
  for (int64_t r = row; r < std::min(row + kFp8Tile, w.rows); ++r) {
    for (int64_t c = col; c < std::min(col + kFp8Tile, w.cols); ++c) {
      // + 0 turns minus zero into zero.
      const float value = std::ldexp(w.Value(r, c), w.ScaleCode(r, c) - tile_scale) + 0.0f;
      const uint8_t code = EncodeE4m3(value);
      if (DecodeE4m3(code) != value) {
        return BadInput(
            "row {}, column {}: FP4 value {} with scale 2^{} is not exact in FP8 with scale 2^{}",
            r, c, w.Value(r, c), w.ScaleCode(r, c) - 127, tile_scale - 127);
      }
      codes[static_cast<size_t>(r * w.cols + c)] = static_cast<std::byte>(code);
    }
  }
  return {};
}

}  // namespace

Status ConvertFp4ToFp8(std::span<const std::byte> packed, std::span<const std::byte> scales,
                       int64_t rows, int64_t cols, std::span<std::byte> codes,
                       std::span<std::byte> tile_scales) {
  DSV4_CHECK(cols % kFp4Block == 0, "{} columns", cols);
  const Weight w{packed, scales, rows, cols};
  size_t tile = 0;
  for (int64_t row = 0; row < rows; row += kFp8Tile) {
    for (int64_t col = 0; col < cols; col += kFp8Tile) {
      DSV4_ASSIGN(const int scale, TileScale(w, row, col));
      tile_scales[tile++] = static_cast<std::byte>(scale);
      DSV4_TRY(ConvertTile(w, row, col, scale, codes));
    }
  }
  return {};
}

}  // namespace dsv4
