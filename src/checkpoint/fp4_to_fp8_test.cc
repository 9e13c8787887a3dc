#include "checkpoint/fp4_to_fp8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/safetensors.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

float FloatAt(const TensorInfo& tensor, size_t i) {
  float value = 0;
  std::memcpy(&value, tensor.data.data() + 4 * i, 4);
  return value;
}

TEST(Fp4ToFp8, GoldenMatrix) {
  const auto golden = Checkpoint::Open(DSV4_TEST_DATA "/model/kernels/convert.safetensors");
  ASSERT_TRUE(golden) << golden.error().message;
  const TensorInfo& scale = *golden->Find("scale");
  std::vector<std::byte> scales(256 * 8);
  for (size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<std::byte>(EncodeE8m0(FloatAt(scale, i)));
  }
  const Fp4Matrix matrix{256, 256, golden->Find("w")->data, scales};
  for (int64_t band = 0; band < 2; ++band) {
    std::vector<std::byte> codes(128 * 256);
    std::vector<std::byte> tile_scales(2);
    ASSERT_TRUE(Fp8CodesOfBand(matrix, band, codes));
    ASSERT_TRUE(Fp8ScalesOfBand(matrix, band, tile_scales));
    const auto at = static_cast<size_t>(band);
    EXPECT_EQ(std::memcmp(codes.data(), golden->Find("code")->data.data() + at * codes.size(),
                          codes.size()),
              0);
    for (size_t tile = 0; tile < 2; ++tile) {
      EXPECT_EQ(DecodeE8m0(static_cast<uint8_t>(tile_scales[tile])),
                FloatAt(*golden->Find("code_scale"), 2 * at + tile));
    }
  }
}

// One row whose first group has scale code 127 and whose second has `other`, all values `code`.
struct TwoGroups {
  TwoGroups(uint8_t code, uint8_t other) : scales{std::byte{127}, std::byte{other}} {
    codes.fill(static_cast<std::byte>(code << 4 | code));
    std::fill(codes.begin(), codes.begin() + 16, std::byte{0});
  }
  Status Convert() { return Fp8CodesOfBand({1, 64, codes, scales}, 0, out); }

  std::array<std::byte, 32> codes;
  std::array<std::byte, 2> scales;
  std::array<std::byte, 64> out{};
};

// Every code under every ratio of scales: exact and equal, or refused.
TEST(Fp4ToFp8, EveryCodeUnderEveryRatioIsExactOrRefused) {
  int exact = 0;
  for (int code = 0; code < 16; ++code) {
    for (int ratio = 0; ratio <= 127; ++ratio) {
      TwoGroups matrix(static_cast<uint8_t>(code), static_cast<uint8_t>(127 - ratio));
      const double value =
          static_cast<double>(kE2m1Values[static_cast<size_t>(code)]) * std::ldexp(1.0, 6 - ratio);
      bool representable = false;
      for (unsigned candidate = 0; candidate < 256; ++candidate) {
        representable = representable ||
                        static_cast<double>(DecodeE4m3(static_cast<uint8_t>(candidate))) == value;
      }
      const Status status = matrix.Convert();
      ASSERT_EQ(status.has_value(), representable) << code << " " << ratio;
      if (!status) continue;
      ++exact;
      const auto found = static_cast<uint8_t>(matrix.out[63]);
      EXPECT_EQ(static_cast<double>(DecodeE4m3(found)), value);
      EXPECT_TRUE(code != 8 || found == 0x00);
    }
  }
  EXPECT_GT(exact, 2 * 128 + 14 * 14);
}

TEST(Fp4ToFp8, EveryValueIsKeptInRaggedTiles) {
  constexpr int64_t kRows = 130;
  constexpr int64_t kCols = 160;
  std::vector<std::byte> codes(kRows * kCols / 2);
  std::vector<std::byte> scales(kRows * kCols / 32);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(37 * i);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(118 + i % 7);
  const Fp4Matrix matrix{kRows, kCols, codes, scales};
  for (int64_t band = 0; band < 2; ++band) {
    const int64_t rows = band == 0 ? 128 : 2;
    std::vector<std::byte> out(static_cast<size_t>(rows * kCols));
    std::array<std::byte, 2> tiles{};
    ASSERT_TRUE(Fp8CodesOfBand(matrix, band, out));
    ASSERT_TRUE(Fp8ScalesOfBand(matrix, band, tiles));
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t element = static_cast<size_t>(band * 128 * kCols) + i;
      const auto pair = static_cast<unsigned>(codes[element / 2]);
      const float value = kE2m1Values[element % 2 == 0 ? pair & 15 : pair >> 4] *
                          DecodeE8m0(static_cast<uint8_t>(scales[element / 32]));
      const size_t tile = element % kCols / 128;
      ASSERT_EQ(
          DecodeE4m3(static_cast<uint8_t>(out[i])) * DecodeE8m0(static_cast<uint8_t>(tiles[tile])),
          value)
          << element;
      ASSERT_NE(out[i], std::byte{0x80}) << "minus zero";
    }
  }
}

TEST(Fp4ToFp8, RefusalNamesTheValue) {
  TwoGroups matrix(1, 127 - 16);
  const Status status = matrix.Convert();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("tile [0, 0]"), HasSubstr("column 32"),
                                            HasSubstr("0.5 · 2^-10 is not exact")));
}

TEST(Fp4ToFp8, ScalesOutsideE8m0AreRefused) {
  TwoGroups nan(1, 255);
  EXPECT_THAT(nan.Convert().error().message, HasSubstr("NaN"));
  TwoGroups tiny(1, 5);
  tiny.scales[0] = std::byte{4};
  EXPECT_THAT(tiny.Convert().error().message, HasSubstr("2^-122 over 2^6 is no E8M0 value"));
}

}  // namespace
}  // namespace dsv4
