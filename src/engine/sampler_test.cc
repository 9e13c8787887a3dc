#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace dsv4::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<double> Softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> probs;
  double sum = 0;
  for (const float logit : logits) {
    probs.push_back(std::exp(logit / temperature));
    sum += probs.back();
  }
  for (double& prob : probs) prob /= sum;
  return probs;
}

// How often each token comes at positions 0 … count - 1.
std::vector<int> Draw(const std::vector<float>& logits, const SamplingParams& params, int count) {
  Sampler sampler;
  std::vector<int> counts(logits.size());
  for (int position = 0; position < count; ++position) {
    ++counts[static_cast<size_t>(sampler.Sample(logits, params, position)->token)];
  }
  return counts;
}

TEST(SamplerTest, TemperatureZeroTakesTheLargestAndAmongEqualsTheSmallestId) {
  Sampler sampler;
  const SamplingParams greedy{.temperature = 0};
  EXPECT_EQ(sampler.Sample(std::vector<float>{1, 3, 2, 3}, greedy, 0)->token, 1);
  EXPECT_EQ(sampler.Sample(std::vector<float>{kNan, 1, 2}, greedy, 0)->token, 2);
}

TEST(SamplerTest, FrequenciesFollowTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits{0, 1, 2, -1, 0.5f};
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    constexpr int kDraws = 20000;
    const auto counts = Draw(logits, {.temperature = temperature, .seed = 7}, kDraws);
    const auto probs = Softmax(logits, temperature);
    for (size_t i = 0; i < logits.size(); ++i) {
      const double sigma = std::sqrt(kDraws * probs[i] * (1 - probs[i]));
      EXPECT_NEAR(counts[i], kDraws * probs[i], 4.5 * sigma) << "token " << i;
    }
  }
}

TEST(SamplerTest, TheNucleusIsTheSmallestSetThatReachesTopP) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const std::vector<float> logits{std::log(2.f), std::log(4.f), std::log(1.f), std::log(1.f)};
  const auto drawn = [&](float top_p) {
    std::vector<int> tokens;
    const auto counts = Draw(logits, {.temperature = 1, .top_p = top_p, .seed = 3}, 2000);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) tokens.push_back(static_cast<int>(i));
    }
    return tokens;
  };
  EXPECT_EQ(drawn(1e-9f), (std::vector{1}));
  EXPECT_EQ(drawn(0.49f), (std::vector{1}));
  EXPECT_EQ(drawn(0.51f), (std::vector{0, 1}));
  EXPECT_EQ(drawn(0.8f), (std::vector{0, 1, 2})) << "of equal ones the smaller id";
  EXPECT_EQ(drawn(0.99f), (std::vector{0, 1, 2, 3}));
}

TEST(SamplerTest, NucleusOfAFlatDistributionIsItsFirstTokens) {
  const std::vector<float> logits(1000, 0.25f);
  const auto counts = Draw(logits, {.temperature = 1, .top_p = 0.1f}, 5000);
  // 0.1 of 1000, give or take the rounding of a probability.
  EXPECT_EQ(std::accumulate(counts.begin() + 101, counts.end(), 0), 0);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.begin() + 100, 0) + counts[100], 5000);
  EXPECT_EQ(Draw(logits, {.temperature = 1, .top_p = 1e-9f}, 50)[0], 50);
}

TEST(SamplerTest, SeedAndPositionAloneDecideTheNoise) {
  const std::vector<float> logits(500, 1.0f);
  Sampler first, second;
  const SamplingParams params{.temperature = 1, .seed = 11};
  std::vector<int32_t> forwards, backwards;
  for (int p = 0; p < 50; ++p) forwards.push_back(first.Sample(logits, params, p)->token);
  for (int p = 50; p-- > 0;) backwards.push_back(second.Sample(logits, params, p)->token);
  EXPECT_EQ(forwards, std::vector<int32_t>(backwards.rbegin(), backwards.rend()));
  std::vector<int32_t> other;
  for (int p = 0; p < 50; ++p) {
    other.push_back(first.Sample(logits, {.temperature = 1, .seed = 12}, p)->token);
  }
  EXPECT_NE(forwards, other);
}

TEST(SamplerTest, NoiseIsExponential) {
  double sum = 0, sum_of_squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const float e = SamplingNoise(5, i / 100, i % 100);
    ASSERT_GT(e, 0);
    ASSERT_LT(e, 20);
    sum += e;
    sum_of_squares += double{e} * e;
  }
  EXPECT_NEAR(sum / kCount, 1, 0.015);
  EXPECT_NEAR(sum_of_squares / kCount, 2, 0.06);
}

TEST(SamplerTest, LogprobsAreOfThePlainSoftmaxMostLikelyFirst) {
  const std::vector<float> logits{0, 2, 1, 2};
  const auto probs = Softmax(logits, 1);
  Sampler sampler;
  const SamplingParams params{.temperature = 0.1f, .top_p = 0.5f, .seed = 1, .num_top_logprobs = 3};
  const Sampled sampled = sampler.Sample(logits, params, 0).value();
  EXPECT_NEAR(sampled.logprob, std::log(probs[static_cast<size_t>(sampled.token)]), 1e-6);
  ASSERT_EQ(sampled.top.size(), 3u);
  EXPECT_EQ(sampled.top[0].token, 1);
  EXPECT_EQ(sampled.top[1].token, 3);
  EXPECT_EQ(sampled.top[2].token, 2);
  EXPECT_NEAR(sampled.top[2].logprob, std::log(probs[2]), 1e-6);
  EXPECT_TRUE(sampler.Sample(logits, {}, 0)->top.empty());
  EXPECT_EQ(sampler.Sample(logits, {.num_top_logprobs = 9}, 0)->top.size(), 4u);
}

TEST(SamplerTest, NanBreaksNothing) {
  const std::vector<float> logits{kNan, 1, kNan, 0};
  Sampler sampler;
  for (int p = 0; p < 100; ++p) {
    const auto sampled =
        sampler.Sample(logits, {.temperature = 1, .top_p = 0.9f, .num_top_logprobs = 4}, p);
    ASSERT_TRUE(sampled);
    EXPECT_TRUE(sampled->token == 1 || sampled->token == 3);
  }
}

TEST(SamplerTest, ALargestLogitThatIsNotFiniteIsAnErrorThatSaysWhatWasFound) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::pair<std::vector<float>, const char*> cases[] = {
      {{kNan, kNan, kNan}, "found 3 NaN, 0 inf and 0 -inf among 3 logits"},
      {{-kInf, kNan}, "found 1 NaN, 0 inf and 1 -inf among 2 logits"},
      {{0, kInf, 1}, "found 0 NaN, 1 inf and 0 -inf among 3 logits"},
  };
  Sampler sampler;
  for (const auto& [logits, message] : cases) {
    for (const float temperature : {0.0f, 1.0f}) {
      const auto sampled = sampler.Sample(logits, {.temperature = temperature}, 17);
      ASSERT_FALSE(sampled);
      EXPECT_EQ(sampled.error().kind, ErrorKind::kFailed);
      EXPECT_EQ(sampled.error().message,
                std::string("token 17: expected a largest logit that is finite, ") + message);
    }
  }
  EXPECT_EQ(sampler.Sample(std::vector<float>{-kInf, 1, kNan}, {}, 0)->token, 1);
}

}  // namespace
}  // namespace dsv4::engine
