// FP4 weights as FP8 without loss. Each tile of 128 x 128 gets one scale, the largest of its FP4
// scales over 2^6, and every value is multiplied by its own scale over the tile's. That is exact
// while the scales within a tile are close enough (6 · 2^6 = 384 < 448 at the upper end); where a
// value would not be exact the conversion is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace dsv4 {

inline constexpr int64_t kFp8Tile = 128;
inline constexpr int64_t kFp4Group = 32;

// A matrix in the file's form.
struct Fp4Matrix {
  int64_t rows = 0;
  int64_t cols = 0;                   // a multiple of kFp4Group
  std::span<const std::byte> codes;   // [rows, cols/2], even column in the low nibble
  std::span<const std::byte> scales;  // [rows, cols/32] E8M0
};

// One band of tiles, rows [kFp8Tile · band, …): the tiles' E8M0 scales, ceil(cols/128) of them.
Status Fp8ScalesOfBand(const Fp4Matrix& matrix, int64_t band, std::span<std::byte> scales);
// And its E4M3 codes, [rows of the band, cols]. Minus zero becomes 0x00.
Status Fp8CodesOfBand(const Fp4Matrix& matrix, int64_t band, std::span<std::byte> codes);

}  // namespace dsv4
