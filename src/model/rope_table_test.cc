#include "model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dsv4 {
namespace {

TEST(RopeFrequencies, PlainPowersOfTheBase) {
  const auto f = RopeFrequencies(64, 10000.0, std::nullopt);
  ASSERT_EQ(f.size(), 32u);
  EXPECT_EQ(f[0], 1.0f);
  for (size_t i = 0; i < f.size(); ++i) {
    const double want = std::pow(10000.0, -2.0 * static_cast<double>(i) / 64.0);
    EXPECT_NEAR(f[i], want, want * 3e-7);
  }
}

TEST(RopeFrequencies, YarnKeepsFastPairsAndDividesSlowOnes) {
  const Yarn yarn{.original_seq_len = 65536, .factor = 16, .beta_fast = 32, .beta_slow = 1};
  const auto plain = RopeFrequencies(64, 160000.0, std::nullopt);
  const auto f = RopeFrequencies(64, 160000.0, yarn);
  for (size_t i = 0; i < f.size(); ++i) {
    if (i <= 15) {
      EXPECT_EQ(f[i], plain[i]) << i;
    } else if (i >= 25) {
      EXPECT_EQ(f[i], plain[i] / 16.0f) << i;
    } else {
      EXPECT_LT(f[i], plain[i]);
      EXPECT_GT(f[i], plain[i] / 16.0f);
    }
  }
}

// Where both ends of the ramp fall on one pair, it is a step and no division by zero.
TEST(RopeFrequencies, YarnWithAnEmptyRamp) {
  const Yarn yarn{.original_seq_len = 1000, .factor = 4, .beta_fast = 1, .beta_slow = 5};
  const auto plain = RopeFrequencies(8, 10000.0, std::nullopt);
  const auto f = RopeFrequencies(8, 10000.0, yarn);
  for (size_t i = 0; i < f.size(); ++i) {
    EXPECT_EQ(f[i], i <= 2 ? plain[i] : plain[i] / 4.0f) << i;
  }
}

TEST(RopeAngles, AreOfTheFp32ProductEvenFarOut) {
  const auto f = RopeFrequencies(64, 160000.0, std::nullopt);
  std::vector<float> cos(32), sin(32);
  for (const int64_t position : {0, 1, 127, 65536, 1048575}) {
    RopeAngles(f, position, cos.data(), sin.data());
    for (size_t i = 0; i < f.size(); ++i) {
      const float angle = static_cast<float>(position) * f[i];
      EXPECT_EQ(cos[i], static_cast<float>(std::cos(double{angle})));
      EXPECT_EQ(sin[i], static_cast<float>(std::sin(double{angle})));
      EXPECT_NEAR(cos[i] * cos[i] + sin[i] * sin[i], 1.0f, 1e-6f);
    }
  }
}

}  // namespace
}  // namespace dsv4
