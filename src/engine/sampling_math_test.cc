#include "engine/sampling_math.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace dsv4 {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Softmax, SumsToOneAndMayWorkInPlace) {
  std::vector<float> x = {1.0f, 2.0f, -3.0f, 100.0f, 99.0f};
  std::vector<float> p(x.size());
  SoftmaxWithTemperature(x, 0.7f, p);
  EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0f), 1.0f, 1e-6f);
  SoftmaxWithTemperature(x, 0.7f, x);
  EXPECT_EQ(x, p);
}

TEST(Softmax, TemperatureZeroIsTheFloorOfTemperatures) {
  const std::array<float, 3> x = {1.0f, 1.5f, 0.0f};
  std::array<float, 3> zero, floor;
  SoftmaxWithTemperature(x, 0.0f, zero);
  SoftmaxWithTemperature(x, 1e-5f, floor);
  EXPECT_EQ(zero, floor);
  EXPECT_EQ(zero, (std::array<float, 3>{0.0f, 1.0f, 0.0f}));
}

TEST(Softmax, MaskedAndNanLogitsGetNothing) {
  const std::array<float, 4> x = {-kInf, 0.0f, kNan, 0.0f};
  std::array<float, 4> p;
  SoftmaxWithTemperature(x, 1.0f, p);
  EXPECT_EQ(p, (std::array<float, 4>{0.0f, 0.5f, 0.0f, 0.5f}));
}

TEST(Choose, NeverTakesAWordOfProbabilityZero) {
  const std::array<float, 3> p = {0.0f, 1e-30f, 0.0f};
  const std::array<float, 3> e = {1e-30f, 50.0f, 1e-30f};
  EXPECT_EQ(ChooseByExponentials(p, e), 1);
}

// Over many draws the words come as often as their probabilities say.
TEST(Choose, FollowsTheProbabilities) {
  std::mt19937 rng(1);
  std::exponential_distribution<float> exponential;
  const std::array<float, 3> p = {0.2f, 0.5f, 0.3f};
  std::array<int, 3> counts = {};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const std::array<float, 3> e = {exponential(rng), exponential(rng), exponential(rng)};
    ++counts[static_cast<size_t>(ChooseByExponentials(p, e))];
  }
  for (size_t i = 0; i < 3; ++i) {
    const double sigma = std::sqrt(kDraws * p[i] * (1 - p[i]));
    EXPECT_NEAR(counts[i], kDraws * p[i], 5 * sigma);
  }
}

TEST(ArgMax, TiesGoToTheSmallerIndexAndNanNeverWins) {
  EXPECT_EQ(ArgMax(std::array{1.0f, 3.0f, 3.0f}), 1);
  EXPECT_EQ(ArgMax(std::array{kNan, -kInf, -5.0f, kNan}), 2);
  EXPECT_EQ(ArgMax(std::array{kNan, -kInf}), 1);
  EXPECT_EQ(ArgMax(std::array{7.0f}), 0);
}

}  // namespace
}  // namespace dsv4
