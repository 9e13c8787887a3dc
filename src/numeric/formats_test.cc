// Every code of the scalar formats, every tie and both its neighbours.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4 {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

static_assert(DecodeE4m3(0x7E) == 448.0f && EncodeE4m3(448.0f) == 0x7E);
static_assert(DecodeE4m3(0x01) == 0x1p-9f && EncodeE4m3(-0x1p-9f) == 0x81);
static_assert(DecodeE2m1(0xF) == -6.0f && EncodeE2m1(5.1f) == 7);
static_assert(DecodeE8m0(127) == 1.0f && EncodeE8m0(0x1p-22f) == 105);
static_assert(Pow2Ceil(1.0f) == 1.0f && Pow2Ceil(1.0000001f) == 2.0f);

// Between neighbouring codes of one sign: the values, the tie and its neighbours.
template <class Decode, class Encode>
void CheckRounding(int num_codes, int sign_bit, Decode decode, Encode encode) {
  for (int code = 0; code + 1 < num_codes; ++code) {
    const float low = decode(code);
    const float high = decode(code + 1);
    ASSERT_LT(low, high);
    const float tie = (low + high) / 2;
    const int even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(encode(low), code);
    EXPECT_EQ(encode(-low), code | sign_bit);
    EXPECT_EQ(encode(tie), even) << tie;
    EXPECT_EQ(encode(-tie), even | sign_bit) << tie;
    EXPECT_EQ(encode(std::nextafter(tie, 0.0f)), code) << tie;
    EXPECT_EQ(encode(std::nextafter(tie, kInf)), code + 1) << tie;
  }
}

TEST(E4m3, EveryCodeAndEveryTie) {
  CheckRounding(
      0x7F, 0x80, [](int code) { return DecodeE4m3(static_cast<uint8_t>(code)); },
      [](float x) { return int{EncodeE4m3(x)}; });
  for (int code = 0; code < 256; ++code) {
    const float value = kE4m3Values[static_cast<size_t>(code)];
    EXPECT_EQ(std::isnan(value), (code & 0x7F) == 0x7F) << code;
    if (!std::isnan(value)) {
      EXPECT_EQ(EncodeE4m3(value), code);
      EXPECT_EQ(RoundToBf16(value), value) << "every value is exact in bf16";
    }
  }
}

TEST(E4m3, ClampsAndKeepsNan) {
  for (const float big : {449.0f, 464.0f, 480.0f, 1e30f, kInf}) {
    EXPECT_EQ(EncodeE4m3(big), 0x7E);
    EXPECT_EQ(EncodeE4m3(-big), 0xFE);
  }
  EXPECT_EQ(EncodeE4m3(kNan) & 0x7F, 0x7F);
  EXPECT_EQ(EncodeE4m3(0x1p-149f), 0);
  EXPECT_EQ(EncodeE4m3(-0.0f), 0x80);
}

TEST(E2m1, EveryCodeAndEveryTie) {
  CheckRounding(
      8, 8, [](int code) { return DecodeE2m1(static_cast<uint8_t>(code)); },
      [](float x) { return int{EncodeE2m1(x)}; });
  for (uint8_t code = 0; code < 16; ++code) EXPECT_EQ(EncodeE2m1(DecodeE2m1(code)), code);
  EXPECT_EQ(DecodeE2m1(0xF3), DecodeE2m1(0x3)) << "only the low nibble counts";
}

TEST(E2m1, Clamps) {
  for (const float big : {6.5f, 100.0f, kInf}) {
    EXPECT_EQ(EncodeE2m1(big), 7);
    EXPECT_EQ(EncodeE2m1(-big), 15);
  }
  EXPECT_EQ(EncodeE2m1(kNan) & 7, 7) << "the format has no NaN";
}

TEST(E8m0, EveryCode) {
  for (int code = 0; code < 255; ++code) {
    const float value = DecodeE8m0(static_cast<uint8_t>(code));
    EXPECT_EQ(value, std::ldexp(1.0f, code - 127));
    EXPECT_EQ(EncodeE8m0(value), code);
  }
  EXPECT_TRUE(std::isnan(DecodeE8m0(0xFF)));
  EXPECT_EQ(EncodeE8m0(kInf), 0xFF);
  EXPECT_EQ(EncodeE8m0(kNan), 0xFF);
}

TEST(Pow2Ceil, EveryExponent) {
  for (int exponent = -126; exponent < 127; ++exponent) {
    const float power = std::ldexp(1.0f, exponent);
    EXPECT_EQ(Pow2Ceil(power), power);
    EXPECT_EQ(Pow2Ceil(std::nextafter(power, kInf)), 2 * power);
    EXPECT_EQ(Pow2Ceil(std::nextafter(2 * power, 0.0f)), 2 * power);
  }
  EXPECT_EQ(Pow2Ceil(0.0f), 0.0f);
  EXPECT_EQ(Pow2Ceil(0x1p-149f), 0x1p-126f);
  EXPECT_EQ(Pow2Ceil(std::numeric_limits<float>::max()), kInf);
  EXPECT_EQ(Pow2Ceil(kInf), kInf);
}

TEST(Bf16, EveryCodeAndEveryTie) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 value{static_cast<uint16_t>(bits)};
    const float exact = ToFloat(value);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(ToFloat(ToBf16(exact))));
      continue;
    }
    ASSERT_EQ(ToBf16(exact), value);
    if (std::isinf(exact)) continue;
    const uint32_t next = bits + 1;  // away from zero; past the largest it is infinity
    const uint32_t tie = (bits << 16) | 0x8000u;
    const uint32_t even = bits % 2 == 0 ? bits : next;
    ASSERT_EQ(ToBf16(std::bit_cast<float>(tie)).bits, even);
    ASSERT_EQ(ToBf16(std::bit_cast<float>(tie - 1)).bits, bits);
    ASSERT_EQ(ToBf16(std::bit_cast<float>(tie + 1)).bits, next);
  }
}

TEST(Bf16, NanStaysNanWhateverItsPayload) {
  for (const uint32_t bits : {0x7F800001u, 0x7F80FFFFu, 0xFFFFFFFFu, 0xFF808000u}) {
    const Bf16 value = ToBf16(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(ToFloat(value)));
    EXPECT_EQ(value.bits >> 15, bits >> 31) << "the sign stays";
  }
}

}  // namespace
}  // namespace dsv4
