#include "checkpoint/fp4_to_fp8.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/check.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4 {
namespace {

constexpr int kHeadroom = 6;         // the tile's scale is its largest one over 2^6
constexpr int kSmallestShift = -12;  // 6 · 2^-12 is below half of the smallest E4M3 value
constexpr uint8_t kNanScale = 0xFF;

// The E4M3 codes of E2M1 values times one power of two, or -1 where there is none.
using Codes = std::array<int16_t, 16>;

// For shifts kSmallestShift … kHeadroom; what lies below holds nothing but zero either.
constexpr std::array<Codes, kHeadroom - kSmallestShift + 1> kCodes = [] {
  std::array<Codes, kHeadroom - kSmallestShift + 1> table{};
  for (int shift = kSmallestShift; shift <= kHeadroom; ++shift) {
    const float factor = std::bit_cast<float>(static_cast<uint32_t>(127 + shift) << 23);
    for (uint8_t code = 0; code < 16; ++code) {
      // Adding zero takes the sign of minus zero away.
      const float value = DecodeE2m1(code) * factor + 0.0f;
      const uint8_t encoded = EncodeE4m3(value);
      const bool exact = DecodeE4m3(encoded) == value;
      table[static_cast<size_t>(shift - kSmallestShift)][code] = exact ? encoded : int16_t{-1};
    }
  }
  return table;
}();

int64_t RowsOfBand(const Fp4Matrix& matrix, int64_t band) {
  return std::min(kFp8Tile, matrix.rows - band * kFp8Tile);
}

std::span<const std::byte> Row(std::span<const std::byte> bytes, int64_t row, int64_t row_bytes) {
  return bytes.subspan(static_cast<size_t>(row * row_bytes), static_cast<size_t>(row_bytes));
}

}  // namespace

Status Fp8ScalesOfBand(const Fp4Matrix& matrix, int64_t band, std::span<std::byte> scales) {
  const int64_t groups = matrix.cols / kFp4Group;
  DSV4_CHECK(std::ssize(scales) == (matrix.cols + kFp8Tile - 1) / kFp8Tile);
  std::fill(scales.begin(), scales.end(), std::byte{0});
  const int64_t first_row = band * kFp8Tile;
  for (int64_t row = first_row; row < first_row + RowsOfBand(matrix, band); ++row) {
    const auto row_scales = Row(matrix.scales, row, groups);
    for (int64_t group = 0; group < groups; ++group) {
      std::byte& largest = scales[static_cast<size_t>(group * kFp4Group / kFp8Tile)];
      largest = std::max(largest, row_scales[static_cast<size_t>(group)]);
    }
  }
  for (size_t tile = 0; tile < scales.size(); ++tile) {
    const auto largest = static_cast<uint8_t>(scales[tile]);
    if (largest == kNanScale) {
      return BadInput("tile [{}, {}]: a scale is NaN", band, tile);
    }
    if (largest < kHeadroom) {
      return BadInput("tile [{}, {}]: its largest scale 2^{} over 2^{} is no E8M0 value", band,
                      tile, largest - 127, kHeadroom);
    }
    scales[tile] = static_cast<std::byte>(largest - kHeadroom);
  }
  return {};
}

Status Fp8CodesOfBand(const Fp4Matrix& matrix, int64_t band, std::span<std::byte> codes) {
  const int64_t groups = matrix.cols / kFp4Group;
  const int64_t rows = RowsOfBand(matrix, band);
  DSV4_CHECK(std::ssize(codes) == rows * matrix.cols);
  std::vector<std::byte> tile_scales(static_cast<size_t>((matrix.cols + kFp8Tile - 1) / kFp8Tile));
  DSV4_TRY(Fp8ScalesOfBand(matrix, band, tile_scales));
  std::byte* out = codes.data();
  for (int64_t row = band * kFp8Tile; row < band * kFp8Tile + rows; ++row) {
    const auto row_scales = Row(matrix.scales, row, groups);
    const auto packed = Row(matrix.codes, row, matrix.cols / 2);
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t tile = group * kFp4Group / kFp8Tile;
      const int shift = static_cast<int>(row_scales[static_cast<size_t>(group)]) -
                        static_cast<int>(tile_scales[static_cast<size_t>(tile)]);
      const Codes& table =
          kCodes[static_cast<size_t>(std::max(shift, kSmallestShift) - kSmallestShift)];
      for (int64_t i = 0; i < kFp4Group; ++i) {
        const auto pair =
            static_cast<unsigned>(packed[static_cast<size_t>((group * kFp4Group + i) / 2)]);
        const unsigned code = i % 2 == 0 ? pair & 15 : pair >> 4;
        if (table[code] < 0) {
          return BadInput(
              "tile [{}, {}]: row {}, column {}: {} · 2^{} is not exact in FP8 under the tile's "
              "scale",
              band, tile, row, group * kFp4Group + i, kE2m1Values[code], shift);
        }
        *out++ = static_cast<std::byte>(table[code]);
      }
    }
  }
  return {};
}

}  // namespace dsv4
