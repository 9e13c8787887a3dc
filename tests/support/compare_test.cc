#include "tests/support/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

namespace dsv4::test {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr Tolerance kAnything{.rms = 1e300, .median = 1e300, .max = 1e300};

FloatTensor Tensor(std::vector<int64_t> shape, std::vector<float> values) {
  return {std::move(values), std::move(shape)};
}

// [4, 2], rows of norm 5, 10, 1 and 13.
FloatTensor Want() { return Tensor({4, 2}, {3, 4, 6, 8, 0, 1, 5, 12}); }

TEST(MeasureRows, FollowsTheDefinitionOfEveryMeasure) {
  FloatTensor got = Want();
  got.values[1] = 4.5f;  // row errors 0.1, 0.3, 0, 0.2: by 0.5/5, 3/10, 0, 2.6/13
  got.values[2] = 9;
  got.values[7] = 9.4f;
  const Result<RowErrors> errors = MeasureRows(got, Want());
  ASSERT_TRUE(errors);
  EXPECT_NEAR(errors->rms, std::sqrt((0.01 + 0.09 + 0.04) / 4), 1e-7);
  EXPECT_NEAR(errors->median, 0.15, 1e-7) << "the mean of the middle two";
  EXPECT_NEAR(errors->max, 0.3, 1e-7);
  EXPECT_EQ(errors->worst_row, 1);
  EXPECT_NEAR(errors->max_abs, 3, 1e-7);
  EXPECT_EQ(errors->worst_index, 2);
  EXPECT_EQ(errors->worst_got, 9);
  EXPECT_EQ(errors->worst_want, 6);
  EXPECT_THAT(Text(*errors, Want().shape), HasSubstr("at [1, 0] got 9 want 6"));
}

TEST(MeasureRows, ThePassRuleNeedsAllThree) {
  FloatTensor got = Want();
  got.values[2] = 9;  // rms 0.15, median 0, max 0.3
  EXPECT_TRUE(WithinTolerance(got, Want(), {.rms = 0.16, .median = 0, .max = 0.31}));
  EXPECT_FALSE(WithinTolerance(got, Want(), {.rms = 0.14, .median = 1, .max = 1}));
  EXPECT_FALSE(WithinTolerance(got, Want(), {.rms = 1, .median = 1, .max = 0.29}));
  got.values = {6, 8, 12, 16, 0, 2, 5, 12};  // three rows off by 1
  EXPECT_FALSE(WithinTolerance(got, Want(), {.rms = 2, .median = 0.5, .max = 2}));
}

TEST(MeasureRows, SmallRowsAreMeasuredAgainstAFloor) {
  const Result<RowErrors> errors = MeasureRows(Tensor({1, 1}, {1e-7f}), Tensor({1, 1}, {0}));
  ASSERT_TRUE(errors);
  EXPECT_NEAR(errors->max, 0.1, 1e-6);
}

TEST(MeasureRows, MinusInfinityReadsAsZero) {
  const FloatTensor with = Tensor({1, 3}, {1, -kInf, 2});
  EXPECT_TRUE(WithinTolerance(with, with, {}));
  EXPECT_TRUE(WithinTolerance(Tensor({1, 3}, {1, 0, 2}), with, {}));
  EXPECT_FALSE(
      WithinTolerance(Tensor({1, 3}, {1, 1, 2}), with, {.rms = .1, .median = .1, .max = .1}));
}

TEST(MeasureRows, AScalarIsOneRow) {
  EXPECT_TRUE(WithinTolerance(Tensor({}, {2}), Tensor({}, {2}), {}));
  EXPECT_FALSE(
      WithinTolerance(Tensor({}, {3}), Tensor({}, {2}), {.rms = .1, .median = .1, .max = .1}));
}

TEST(WrongAnswers, NanFailsUnderAnyTolerance) {
  FloatTensor bad = Want();
  bad.values[5] = kNan;
  for (const auto& [got, want] : {std::pair{bad, Want()}, {Want(), bad}, {bad, bad}}) {
    EXPECT_FALSE(WithinTolerance(got, want, kAnything));
    EXPECT_FALSE(WithinBf16Steps(got, want, 1e9));
    EXPECT_FALSE(WithinUlps(got, want, 1e9));
    EXPECT_FALSE(WithinRelative(got, want, 1e9));
    EXPECT_FALSE(WithinAbsolute(got, want, 1e9));
  }
  EXPECT_THAT(WithinTolerance(bad, Want(), kAnything).text, HasSubstr("[2, 1] got nan want 1"));
  EXPECT_FALSE(SameBits(bad, Want()));
}

TEST(WrongAnswers, InfinityFailsUnderAnyTolerance) {
  for (const float infinity : {kInf, -kInf}) {
    FloatTensor bad = Want();
    bad.values[5] = infinity;
    EXPECT_FALSE(WithinBf16Steps(bad, Want(), 1e9));
    EXPECT_FALSE(WithinRelative(bad, Want(), 1e9));
    EXPECT_FALSE(WithinRelative(Want(), bad, 1e9));
    EXPECT_TRUE(WithinRelative(bad, bad, 0)) << "equal infinities are equal elements";
    EXPECT_FALSE(SameBits(bad, Want()));
  }
  FloatTensor bad = Want();
  bad.values[5] = kInf;
  EXPECT_FALSE(WithinTolerance(bad, Want(), kAnything));
  EXPECT_FALSE(WithinTolerance(bad, bad, kAnything));
}

TEST(WrongAnswers, AFlippedSignFails) {
  FloatTensor bad = Want();
  bad.values[3] = -bad.values[3];
  EXPECT_FALSE(WithinTolerance(bad, Want(), {.rms = .5, .median = .5, .max = .5}));
  EXPECT_FALSE(WithinBf16Steps(bad, Want(), 1));
  EXPECT_FALSE(WithinRelative(bad, Want(), 1));
  EXPECT_FALSE(SameBits(bad, Want()));
  EXPECT_FALSE(SameBits(Tensor({1}, {-0.0f}), Tensor({1}, {0.0f})));
}

TEST(WrongAnswers, OneBadElementOfManyFailsAndIsNamed) {
  FloatTensor want = Tensor({1000, 10}, std::vector<float>(10000, 1));
  FloatTensor bad = want;
  bad.values[7654] = 1.5f;
  const Verdict verdict = WithinTolerance(bad, want, {.rms = 1, .median = 0, .max = 0.1});
  EXPECT_FALSE(verdict);
  EXPECT_THAT(verdict.text, HasSubstr("[765, 4] got 1.5 want 1"));
  EXPECT_THAT(WithinRelative(bad, want, 0.1).text, HasSubstr("1 of 10000"));
  EXPECT_THAT(SameBits(bad, want).text, HasSubstr("[765, 4] got 1.5 want 1"));
}

TEST(WrongAnswers, AnotherShapeFails) {
  const FloatTensor turned = Tensor({2, 4}, Want().values);
  EXPECT_FALSE(WithinTolerance(turned, Want(), kAnything));
  EXPECT_FALSE(WithinBf16Steps(turned, Want(), 1));
  EXPECT_FALSE(SameBits(turned, Want()));
  EXPECT_THAT(SameBits(turned, Want()).text, HasSubstr("shape [2, 4], expected [4, 2]"));
}

TEST(WrongAnswers, FewerValuesThanTheShapeSaysFails) {
  FloatTensor cut = Want();
  cut.values.pop_back();
  EXPECT_FALSE(WithinTolerance(cut, Want(), kAnything));
  EXPECT_FALSE(WithinTolerance(cut, cut, kAnything));
  EXPECT_FALSE(SameBits(cut, Want()));
}

TEST(WrongAnswers, NothingToCompareIsNoAgreement) {
  const FloatTensor empty = Tensor({0, 2}, {});
  EXPECT_FALSE(WithinTolerance(empty, empty, kAnything));
  EXPECT_FALSE(WithinTolerance(empty, Want(), kAnything));
  EXPECT_FALSE(WithinBf16Steps(empty, empty, 1));
  EXPECT_FALSE(WithinRelative(Tensor({3, 0}, {}), Tensor({3, 0}, {}), 1));
  EXPECT_TRUE(SameBits(empty, empty));
  EXPECT_FALSE(SameBits(empty, Want()));
}

TEST(WithinBf16Steps, CountsTheSpacingAtTheLargerMagnitude) {
  const FloatTensor one = Tensor({1}, {1});
  EXPECT_TRUE(WithinBf16Steps(Tensor({1}, {1.0078125f}), one, 1));  // 1 + 2^-7
  EXPECT_FALSE(WithinBf16Steps(Tensor({1}, {1.015625f}), one, 1));  // 1 + 2^-6
  EXPECT_TRUE(WithinBf16Steps(Tensor({1}, {1.015625f}), one, 2));
  EXPECT_FALSE(WithinBf16Steps(Tensor({1}, {1e-30f}), Tensor({1}, {0}), 1)) << "zero is exact";
  EXPECT_TRUE(WithinBf16Steps(Tensor({1}, {-0.0f}), Tensor({1}, {0}), 0));
  const float tiny = std::ldexp(1.0f, -133);  // the smallest bf16
  EXPECT_TRUE(WithinBf16Steps(Tensor({1}, {2 * tiny}), Tensor({1}, {tiny}), 1));
}

TEST(WithinUlps, CountsTheSpacingOfFloats) {
  const float next = std::nextafter(1.0f, 2.0f);
  EXPECT_TRUE(WithinUlps(Tensor({1}, {next}), Tensor({1}, {1}), 1));
  EXPECT_FALSE(WithinUlps(Tensor({1}, {std::nextafter(next, 2.0f)}), Tensor({1}, {1}), 1));
}

TEST(WithinRelative, MeasuresAgainstTheWantedValueOrTheFloor) {
  EXPECT_TRUE(WithinRelative(Tensor({1}, {1.125f}), Tensor({1}, {1}), 0.125));
  EXPECT_FALSE(WithinRelative(Tensor({1}, {1.25f}), Tensor({1}, {1}), 0.125));
  EXPECT_FALSE(WithinRelative(Tensor({1}, {1e-9f}), Tensor({1}, {0}), 0.5));
  EXPECT_TRUE(WithinRelative(Tensor({1}, {1e-9f}), Tensor({1}, {0}), 0.5, 1e-6));
}

TEST(WithinBf16Places, CountsTheNumbersBetween) {
  const auto judge = [](float got, float want, int places) {
    const Bf16 a = ToBf16(got);
    const Bf16 b = ToBf16(want);
    return WithinBf16Places({&a, 1}, {&b, 1}, places);
  };
  EXPECT_TRUE(judge(1.0f, 1.0f, 0));
  EXPECT_TRUE(judge(1.0078125f, 1.0f, 1));
  EXPECT_FALSE(judge(1.0078125f, 1.0f, 0));
  EXPECT_FALSE(judge(0.9921875f, 1.0f, 1)) << "below a power of two numbers lie closer";
  EXPECT_TRUE(judge(-0.0f, 0.0f, 0));
  EXPECT_FALSE(judge(-1.0f, 1.0f, 1));
  EXPECT_TRUE(judge(kNan, -kNan, 0));
  EXPECT_FALSE(judge(kNan, 1.0f, 1000000));
  EXPECT_FALSE(judge(1.0f, kNan, 1000000));
  EXPECT_FALSE(judge(kInf, 1.0f, 1000));
  EXPECT_TRUE(judge(kInf, 3.3895e38f, 1)) << "the largest number's neighbour";
  EXPECT_FALSE(judge(kInf, -kInf, 1));
  const std::vector<Bf16> two(2);
  EXPECT_FALSE(WithinBf16Places(two, std::span(two).first(1), 1));
  EXPECT_THAT(judge(2.0f, 1.0f, 1).text, HasSubstr("[0] got 2 want 1"));
}

TEST(SameBits, AnyNanEqualsAnyNan) {
  EXPECT_TRUE(SameBits(Tensor({2}, {kNan, 1}), Tensor({2}, {-kNan, 1})));
  EXPECT_FALSE(SameBits(Tensor({2}, {kNan, 1}), Tensor({2}, {1, 1})));
}

TEST(SameElements, NamesTheFirstDifference) {
  const std::vector<uint16_t> want = {1, 2, 0x1234, 4};
  std::vector<uint16_t> got = want;
  EXPECT_TRUE(SameElements<uint16_t>(got, want));
  got[2] = 0x1235;
  got[3] = 0;
  const Verdict verdict = SameElements<uint16_t>(got, want);
  EXPECT_FALSE(verdict);
  EXPECT_EQ(verdict.text, "2 of 4 elements differ; first [2] got 0x1235 want 0x1234");
  got.pop_back();
  EXPECT_FALSE(SameElements<uint16_t>(got, want));
}

TEST(Verdict, ShowsItsTextInAnAssertion) {
  const ::testing::AssertionResult failed = Verdict{false, "why"};
  EXPECT_FALSE(failed);
  EXPECT_STREQ(failed.message(), "why");
  EXPECT_TRUE(Verdict(true, "fine"));
}

class LoadFloatsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<float> floats = {1.5f, -2};
    const std::vector<uint16_t> halves = {0x3FC0, 0xC000};  // 1.5, -2
    const std::vector<int32_t> ints = {-7, 9};
    const std::vector<int32_t> big = {16777217, 0};  // 2^24 + 1
    const std::vector<uint8_t> codes = {1, 2};
    const auto tensor = [](const char* name, DType dtype, const auto& values) {
      return TensorToWrite{name, dtype, {2, 1}, std::as_bytes(std::span(values))};
    };
    const std::vector<TensorToWrite> tensors = {
        tensor("f32", DType::kF32, floats), tensor("bf16", DType::kBF16, halves),
        tensor("i32", DType::kI32, ints), tensor("big", DType::kI32, big),
        tensor("fp8", DType::kF8E4M3, codes)};
    ASSERT_TRUE(WriteSafetensors(path_, tensors));
  }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) / "compare_test.safetensors";
};

TEST_F(LoadFloatsTest, ConvertsWhatAFloatHoldsExactly) {
  const Result<Checkpoint> file = Checkpoint::Open(path_);
  ASSERT_TRUE(file) << file.error().message;
  const FloatTensor want = Tensor({2, 1}, {1.5f, -2});
  for (const char* name : {"f32", "bf16"}) {
    const Result<FloatTensor> got = LoadFloats(*file, name);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(SameBits(*got, want)) << name;
  }
  const Result<FloatTensor> ints = LoadFloats(*file, "i32");
  ASSERT_TRUE(ints) << ints.error().message;
  EXPECT_TRUE(SameBits(*ints, Tensor({2, 1}, {-7, 9})));
}

TEST_F(LoadFloatsTest, RefusesTheRestByName) {
  const Result<Checkpoint> file = Checkpoint::Open(path_);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(LoadFloats(*file, "big").error().message, HasSubstr("16777217"));
  EXPECT_THAT(LoadFloats(*file, "fp8").error().message, HasSubstr("found F8_E4M3"));
  EXPECT_THAT(LoadFloats(*file, "none").error().message, HasSubstr("no tensor none"));
}

}  // namespace
}  // namespace dsv4::test
