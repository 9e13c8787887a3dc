#include "checkpoint/fp4_to_fp8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4 {
namespace {

struct Case {
  std::vector<std::byte> packed, scales, codes, tiles;

  // Every code of FP4 in turn; scale byte of row r and block b from `scale`.
  template <class Scale>
  Case(int64_t rows, int64_t cols, Scale scale) {
    for (int64_t i = 0; i < rows * cols / 2; ++i) {
      packed.push_back(static_cast<std::byte>((i * 2 % 16) | ((i * 2 + 1) % 16) << 4));
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t b = 0; b < cols / 32; ++b) scales.push_back(static_cast<std::byte>(scale(r, b)));
    }
    codes.resize(static_cast<size_t>(rows * cols));
    tiles.resize(static_cast<size_t>((rows + 127) / 128 * ((cols + 127) / 128)));
  }
  Status Convert(int64_t rows, int64_t cols) {
    return ConvertFp4ToFp8(packed, scales, rows, cols, codes, tiles);
  }
};

TEST(Fp4ToFp8, EveryValueIsKeptInRaggedTiles) {
  constexpr int64_t kRows = 130, kCols = 160;
  const auto scale = [](int64_t r, int64_t b) { return 118 + (r + b) % 7; };
  Case c(kRows, kCols, scale);
  ASSERT_TRUE(c.Convert(kRows, kCols));
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < kCols; ++k) {
      const float old = DecodeE2m1(static_cast<uint8_t>((r * kCols + k) % 16)) *
                        DecodeE8m0(static_cast<uint8_t>(scale(r, k / 32)));
      const auto code = std::to_integer<uint8_t>(c.codes[static_cast<size_t>(r * kCols + k)]);
      const auto tile =
          std::to_integer<uint8_t>(c.tiles[static_cast<size_t>(r / 128 * 2 + k / 128)]);
      EXPECT_EQ(DecodeE4m3(code) * DecodeE8m0(tile), old) << r << " " << k;
      EXPECT_NE(code, 0x80) << "minus zero";
    }
  }
}

TEST(Fp4ToFp8, RefusesWhatWouldNotBeExact) {
  // 0.5 times 2^(6-15) is 2^-10, half of the smallest E4M3 value.
  Case far(1, 64, [](int64_t, int64_t b) { return b == 0 ? 127 : 112; });
  const Status status = far.Convert(1, 64);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(status.error().message, testing::HasSubstr("row 0, column 33"));
  Case near(1, 64, [](int64_t, int64_t b) { return b == 0 ? 127 : 113; });
  EXPECT_TRUE(near.Convert(1, 64));
}

TEST(Fp4ToFp8, RefusesNanAndTooSmallScales) {
  Case nan(1, 32, [](int64_t, int64_t) { return 255; });
  EXPECT_FALSE(nan.Convert(1, 32));
  Case small(1, 32, [](int64_t, int64_t) { return 5; });
  EXPECT_FALSE(small.Convert(1, 32));
}

}  // namespace
}  // namespace dsv4
