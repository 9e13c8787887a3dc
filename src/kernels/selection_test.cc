// Properties of attention, indexer, pooling and router that hold for every kernel set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "kernels/dispatch.h"
#include "tests/support/guarded.h"

namespace dsv4::kernels {
namespace {

using test::Guarded;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<Bf16> RandomBf16(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(ToBf16(normal(rng)));
  return x;
}

class Selection : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

class Attention : public Selection {
 protected:
  // q attends to the first num_rows rows of x stored in `layout`.
  std::vector<Bf16> Attend(const std::vector<Bf16>& q, const std::vector<Bf16>& x, int64_t num_rows,
                           KvRowLayout layout, const std::vector<float>& sink,
                           bool in_place = false) const {
    const auto heads = static_cast<int32_t>(sink.size());
    Guarded<std::byte> stored(num_rows * layout.row_bytes(), 1);
    k().pack_kv_rows(x.data(), num_rows, layout, stored.data());
    std::vector<const std::byte*> rows;
    for (int64_t r = 0; r < num_rows; ++r) rows.push_back(stored.data() + r * layout.row_bytes());
    Guarded<std::byte> scratch(k().sparse_attention_scratch_bytes(heads, layout), 1);
    Guarded<Bf16> o(static_cast<int64_t>(q.size()));
    std::copy(q.begin(), q.end(), o.data());
    k().sparse_attention({.q = in_place ? o.data() : q.data(),
                          .num_heads = heads,
                          .layout = layout,
                          .rows = rows.data(),
                          .num_rows = num_rows,
                          .sink = sink.data(),
                          .scale = 0.125f,
                          .output = o.data(),
                          .scratch = scratch.data()});
    EXPECT_TRUE(scratch.Intact() && o.Intact());
    return o.values();
  }
};

INSTANTIATE_TEST_SUITE_P(, Selection, testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });
INSTANTIATE_TEST_SUITE_P(, Attention, testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });

TEST_P(Attention, PackedPlainAndInPlaceGiveTheSameBits) {
  for (const int32_t width : {64, 128, 192, 512}) {
    const auto q = RandomBf16(3 * width, 1);
    const auto x = RandomBf16(130 * width, 2);
    for (const int64_t rows : {1, 2, 63, 64, 65, 128, 130}) {
      const std::vector<float> sink = {0.5f, -1.0f, 2.0f};
      const auto packed = Attend(q, x, rows, {width, 64, true}, sink);
      EXPECT_EQ(Attend(q, x, rows, {width, 64, false}, sink), packed);
      EXPECT_EQ(Attend(q, x, rows, {width, 64, true}, sink, true), packed);
    }
  }
}

TEST_P(Attention, HeadsAreIndependent) {
  constexpr int32_t kWidth = 128;
  const auto q = RandomBf16(5 * kWidth, 3);
  const auto x = RandomBf16(70 * kWidth, 4);
  const auto all = Attend(q, x, 70, {kWidth, 64, true}, {0, 1, 2, 3, 4});
  for (int h = 0; h < 5; ++h) {
    const std::vector<Bf16> one(q.begin() + h * kWidth, q.begin() + (h + 1) * kWidth);
    const auto alone = Attend(one, x, 70, {kWidth, 64, true}, {static_cast<float>(h)});
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + h * kWidth)) << h;
  }
}

TEST_P(Attention, SinksOfAnySizeNeverGiveNan) {
  constexpr int32_t kWidth = 64;
  const auto q = RandomBf16(kWidth, 5);
  const auto x = RandomBf16(70 * kWidth, 6);
  const auto with = [&](float sink) { return Attend(q, x, 70, {kWidth, 64, true}, {sink}); };
  const auto none = with(-kInf);
  EXPECT_EQ(with(-200.0f), none);
  for (const float sink : {-60.0f, 60.0f, 1000.0f, kInf}) {
    for (const Bf16 value : with(sink)) {
      EXPECT_FALSE(std::isnan(ToFloat(value)));
      if (sink >= 1000.0f) {
        EXPECT_EQ(ToFloat(value), 0.0f);
      }
    }
  }
  EXPECT_NE(ToFloat(with(60.0f)[0]), 0.0f) << "small is not zero";
}

// One row and no sink: the answer is that row.
TEST_P(Attention, OneRowIsItsOwnAnswer) {
  constexpr int32_t kWidth = 128;
  auto x = RandomBf16(kWidth, 7);
  const auto o = Attend(RandomBf16(kWidth, 8), x, 1, {kWidth, 64, true}, {-kInf});
  k().act_quant_in_place(x.data(), 1, 64, 64, ActScale::kPowerOfTwo);
  EXPECT_EQ(o, x);
}

// The formula of docs/numerics.md in double over two tiles and a part: almost every output has the
// same bits, none is further than one bf16 step. Unrounded probabilities alone would change every
// fifth.
TEST_P(Attention, AgreesWithTheTiledFormulaInDouble) {
  constexpr int32_t kWidth = 128;
  constexpr int64_t kRows = 150;
  const auto q = RandomBf16(2 * kWidth, 15);
  auto x = RandomBf16(kRows * kWidth, 16);
  const std::vector<float> sink = {1.0f, -1.0f};
  const auto got = Attend(q, x, kRows, {kWidth, 64, true}, sink);
  for (int64_t r = 0; r < kRows; ++r) {
    k().act_quant_in_place(x.data() + r * kWidth, 1, 64, 64, ActScale::kPowerOfTwo);
  }
  int num_different = 0;
  for (int h = 0; h < 2; ++h) {
    double max = -kInf, sum = 0.0;
    std::vector<double> value(kWidth);
    for (int64_t begin = 0; begin < kRows; begin += 64) {
      const int64_t end = std::min(begin + 64, kRows);
      std::vector<double> score;
      for (int64_t r = begin; r < end; ++r) {
        double dot = 0.0;
        for (int c = 0; c < kWidth; ++c) {
          dot += double{ToFloat(q[static_cast<size_t>(h * kWidth + c)])} *
                 ToFloat(x[static_cast<size_t>(r * kWidth + c)]);
        }
        score.push_back(dot * 0.125);
      }
      const double raised = std::max(max, *std::ranges::max_element(score));
      sum *= std::exp(max - raised);
      for (double& v : value) v *= std::exp(max - raised);
      max = raised;
      for (int64_t r = begin; r < end; ++r) {
        const double p = std::exp(score[static_cast<size_t>(r - begin)] - max);
        sum += p;
        for (int c = 0; c < kWidth; ++c) {
          value[static_cast<size_t>(c)] += double{RoundToBf16(static_cast<float>(p))} *
                                           ToFloat(x[static_cast<size_t>(r * kWidth + c)]);
        }
      }
    }
    sum += std::exp(sink[static_cast<size_t>(h)] - max);
    for (int c = 0; c < kWidth; ++c) {
      const Bf16 want = ToBf16(static_cast<float>(value[static_cast<size_t>(c)] / sum));
      const Bf16 have = got[static_cast<size_t>(h * kWidth + c)];
      EXPECT_LE(std::abs(int{want.bits} - int{have.bits}), 1) << h << " " << c;
      num_different += want != have;
    }
  }
  EXPECT_LE(num_different, 5);
}

TEST_P(Selection, IndexScoresDoNotDependOnHowKeysAreCutOrStored) {
  for (const int32_t width : {32, 64, 128, 160}) {
    const IndexRowLayout layout{width};
    constexpr int64_t kKeys = 150;
    constexpr int32_t kHeads = 5;
    std::vector<std::byte> q(static_cast<size_t>(kHeads * layout.row_bytes()));
    std::vector<std::byte> keys(static_cast<size_t>(kKeys * layout.row_bytes()));
    k().pack_index_rows(RandomBf16(kHeads * width, 9).data(), kHeads, layout, q.data());
    k().pack_index_rows(RandomBf16(kKeys * width, 10).data(), kKeys, layout, keys.data());
    const float weights[kHeads] = {0.5f, -1.0f, 0.25f, 2.0f, -0.125f};
    const auto score = [&](int64_t run_length, int64_t begin, int64_t end) {
      std::vector<const std::byte*> runs;
      for (int64_t i = 0; i < kKeys; i += run_length) {
        runs.push_back(keys.data() + i * layout.row_bytes());
      }
      Guarded<float> scores(end - begin);
      k().index_scores({.q = q.data(),
                        .weights = weights,
                        .num_heads = kHeads,
                        .layout = layout,
                        .runs = runs.data(),
                        .run_length = run_length,
                        .begin = begin,
                        .end = end,
                        .scores = scores.data()});
      EXPECT_TRUE(scores.Intact());
      return scores.values();
    };
    const auto whole = score(kKeys, 0, kKeys);
    for (const int64_t run_length : {1, 32, 77}) {
      for (int64_t begin = 0; begin < kKeys; begin += 31) {
        const int64_t end = std::min(begin + 40, kKeys);
        EXPECT_EQ(score(run_length, begin, end),
                  std::vector<float>(whole.begin() + begin, whole.begin() + end));
      }
    }
    // Each score in double.
    std::vector<Bf16> qv(static_cast<size_t>(kHeads * width)),
        kv(static_cast<size_t>(kKeys * width));
    k().unpack_index_rows(q.data(), kHeads, layout, qv.data());
    k().unpack_index_rows(keys.data(), kKeys, layout, kv.data());
    for (int64_t i = 0; i < kKeys; ++i) {
      double want = 0.0;
      for (int h = 0; h < kHeads; ++h) {
        double dot = 0.0;
        for (int c = 0; c < width; ++c) {
          dot += double{ToFloat(qv[static_cast<size_t>(h * width + c)])} *
                 ToFloat(kv[static_cast<size_t>(i * width + c)]);
        }
        want += std::max(dot, 0.0) * weights[h];
      }
      EXPECT_NEAR(whole[static_cast<size_t>(i)], want, 1e-3) << i;
    }
  }
}

TEST_P(Selection, TopKIsTheSortedChoice) {
  std::mt19937 rng(11);
  for (int64_t n = 0; n <= 40; ++n) {
    std::vector<float> scores;
    for (int64_t i = 0; i < n; ++i) {
      const int value = std::uniform_int_distribution<int>(-3, 3)(rng);  // ties abound
      scores.push_back(value == -3 ? -kInf : static_cast<float>(value));
    }
    std::vector<int32_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int32_t a, int32_t b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    for (int64_t count = 0; count <= n + 2; ++count) {
      std::vector<int32_t> want(order.begin(), order.begin() + std::min(count, n));
      std::ranges::sort(want);
      Guarded<int32_t> got(std::min(count, n)), scratch(n);
      k().top_k(scores.data(), n, count, got.data(), scratch.data());
      EXPECT_TRUE(got.Intact() && scratch.Intact());
      EXPECT_EQ(got.values(), want) << n << " " << count;
    }
  }
}

TEST_P(Selection, TopKTakesNanLast) {
  const std::vector<float> scores = {kNan, 1.0f, kNan, -5.0f, 2.0f};
  std::vector<int32_t> got(3), scratch(5);
  k().top_k(scores.data(), 5, 3, got.data(), scratch.data());
  EXPECT_THAT(got, testing::ElementsAre(1, 3, 4));
}

TEST_P(Selection, PoolOverRaggedWidths) {
  for (int32_t width = 1; width <= 70; ++width) {
    constexpr int32_t kRows = 8;
    const auto kv = RandomBf16(kRows * width, 12);
    const auto score = RandomBf16(kRows * width, 13);
    std::vector<float> kv_values, score_values;
    for (const Bf16 value : kv) kv_values.push_back(ToFloat(value));
    for (const Bf16 value : score) score_values.push_back(ToFloat(value) * 20);
    std::vector<const float*> kv_rows, score_rows;
    for (int r = 0; r < kRows; ++r) {
      kv_rows.push_back(kv_values.data() + r * width);
      score_rows.push_back(score_values.data() + r * width);
    }
    const auto run = [&](int32_t first_row, int32_t n, Bf16* out) {
      k().pool({.kv = kv_rows.data() + first_row,
                .score = score_rows.data() + first_row,
                .num_rows = n,
                .width = width,
                .output = out});
    };
    Guarded<Bf16> one(width), all(width);
    run(3, 1, one.data());
    EXPECT_TRUE(std::equal(kv.begin() + 3 * width, kv.begin() + 4 * width, one.data()))
        << "a single row is its own pool";
    run(0, kRows, all.data());
    EXPECT_TRUE(one.Intact() && all.Intact());
    for (int32_t c = 0; c < width; ++c) {
      double sum = 0.0, value = 0.0;
      for (int r = 0; r < kRows; ++r) {
        const double p = std::exp(double{score_rows[static_cast<size_t>(r)][c]} - 80.0);
        sum += p;
        value += p * kv_rows[static_cast<size_t>(r)][c];
      }
      EXPECT_NEAR(ToFloat(all.data()[c]), value / sum, 0.01 * std::fabs(value / sum) + 1e-6);
    }
  }
}

TEST_P(Selection, RouteChoosesDistinctExpertsWhateverTheScores) {
  std::mt19937 rng(14);
  const float specials[] = {kNan, -kInf, kInf, 0.0f, 1.0f, -100.0f, 100.0f};
  for (int trial = 0; trial < 200; ++trial) {
    const int32_t n = 1 + trial % 20;
    const int32_t chosen_count = 1 + trial % n;
    std::vector<float> z, bias;
    for (int32_t i = 0; i < n; ++i) {
      z.push_back(specials[rng() % std::size(specials)]);
      bias.push_back(static_cast<float>(rng() % 3));
    }
    for (const auto function :
         {ScoreFunction::kSqrtSoftplus, ScoreFunction::kSigmoid, ScoreFunction::kSoftmax}) {
      Guarded<float> scores(n), weights(chosen_count);
      Guarded<int32_t> chosen(chosen_count);
      k().route({.z = z.data(),
                 .num_experts = n,
                 .num_chosen = chosen_count,
                 .function = function,
                 .bias = bias.data(),
                 .scores = scores.data(),
                 .chosen = chosen.data(),
                 .weights = weights.data()});
      EXPECT_TRUE(scores.Intact() && weights.Intact() && chosen.Intact());
      const auto list = chosen.values();
      EXPECT_EQ(std::set<int32_t>(list.begin(), list.end()).size(), list.size());
      EXPECT_TRUE(std::ranges::all_of(list, [n](int32_t e) { return e >= 0 && e < n; }));
    }
  }
}

TEST_P(Selection, RouteTiesGoToTheSmallerIndexInFallingOrder) {
  const std::vector<float> z = {0, 1, 1, 0, 2, 1};
  std::vector<float> scores(6), weights(4);
  std::vector<int32_t> chosen(4);
  k().route({.z = z.data(),
             .num_experts = 6,
             .num_chosen = 4,
             .route_scale = 2.0f,
             .scores = scores.data(),
             .chosen = chosen.data(),
             .weights = weights.data()});
  EXPECT_THAT(chosen, testing::ElementsAre(4, 1, 2, 5));
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0f), 2.0f, 1e-6f);
}

}  // namespace
}  // namespace dsv4::kernels
