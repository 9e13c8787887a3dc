// Choice, SwiGLU, pooling, attention and index scores of every set against ref: bit for bit where
// nothing is rounded, else within the rounding of fp32. Guards stand round every output.
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/against_ref.h"

namespace dsv4::kernels {
namespace {

using dsv4::test::Guarded;
using test::AgainstRef;
using test::ExpectSameBits;
using test::kInf;
using test::kNan;
using test::RandomBf16;
using test::RandomFloats;
using test::WildBf16;

class SelectionAgainstRef : public AgainstRef {};

INSTANTIATE_TEST_SUITE_P(, SelectionAgainstRef,
                         testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });

TEST_P(SelectionAgainstRef, TopK) {
  std::mt19937 rng(19);
  struct Case {
    int64_t n, k;
    int kind;
  };
  std::vector<Case> cases;
  for (const int64_t n : {1, 15, 16, 17, 63, 64, 65, 1023, 1100, 5000}) {
    for (const int64_t count : {1, 2, 16, 512, 4999}) {
      for (int kind = 0; kind < 5; ++kind) cases.push_back({n, count, kind});
    }
  }
  for (int kind = 0; kind < 5; ++kind) cases.push_back({262144, 1024, kind});
  for (const auto& [n, count, kind] : cases) {
    std::vector<float> scores = RandomFloats(n, static_cast<uint32_t>(n + count));
    for (float& s : scores) {
      if (kind == 1) s = std::round(s * 2.0f);  // ties, both zeros
      if (kind == 2 && rng() % 3 != 0) s = rng() % 2 ? kNan : -kInf;
      if (kind == 3 && rng() % 9 == 0) s = kInf;
    }
    if (kind == 4) std::ranges::sort(scores);  // every score above the bar
    ExpectSameBits<int32_t>(k(), std::min(n, count), [&](const Kernels& set, int32_t* indices) {
      Guarded<int32_t> scratch(n);
      set.top_k(scores.data(), n, count, indices, scratch.data());
      EXPECT_TRUE(scratch.Intact());
    });
  }
}

// Two bf16 values are at most `steps` apart; NaN equals NaN.
void ExpectNear(Bf16 got, Bf16 want, int steps) {
  const float a = ToFloat(got);
  const float b = ToFloat(want);
  if (std::isnan(a) || std::isnan(b)) {
    EXPECT_EQ(std::isnan(a), std::isnan(b)) << a << " for " << b;
    return;
  }
  const auto place = [](Bf16 x) { return (x.bits & 0x8000) ? -(x.bits & 0x7FFF) : int{x.bits}; };
  EXPECT_LE(std::abs(place(got) - place(want)), steps) << a << " for " << b;
}

TEST_P(SelectionAgainstRef, SwigluAndPool) {
  std::vector<int64_t> widths = {512, 2048};
  for (int64_t width = 1; width <= 70; ++width) widths.push_back(width);
  for (const int64_t width : widths) {
    const auto gate = WildBf16(2 * width, 20);
    const auto up = WildBf16(2 * width, 21);
    const float weights[2] = {0.25f, 1.5f};
    for (const float limit : {0.0f, 10.0f}) {
      Guarded<Bf16> want(2 * width), got(2 * width);
      SwigluArgs args{.gate = gate.data(),
                      .up = up.data(),
                      .num_rows = 2,
                      .width = width,
                      .limit = limit,
                      .weights = weights,
                      .output = want.data()};
      ref::Swiglu(args);
      args.output = got.data();
      k().swiglu(args);
      EXPECT_TRUE(got.Intact());
      for (int64_t i = 0; i < 2 * width; ++i) ExpectNear(got.data()[i], want.data()[i], 1);
    }
    for (const int32_t rows : {1, 3, 8, 128}) {
      std::vector<std::vector<float>> kv, score;
      std::vector<const float*> kv_rows, score_rows;
      for (int32_t r = 0; r < rows; ++r) {
        kv.push_back(RandomFloats(width, static_cast<uint32_t>(100 + r)));
        // All of one sign: no cancellation blows up the difference of two orders.
        for (float& v : kv.back()) v = std::fabs(v);
        score.push_back(RandomFloats(width, static_cast<uint32_t>(300 + r), 10.0f));
        if (r == 1) score.back()[0] = -kInf;
        if (r == 2) score.back()[static_cast<size_t>(width - 1)] = kNan;
      }
      for (int32_t r = 0; r < rows; ++r) {
        kv_rows.push_back(kv[static_cast<size_t>(r)].data());
        score_rows.push_back(score[static_cast<size_t>(r)].data());
      }
      Guarded<Bf16> want(width), got(width);
      PoolArgs args{.kv = kv_rows.data(),
                    .score = score_rows.data(),
                    .num_rows = rows,
                    .width = static_cast<int32_t>(width),
                    .output = want.data()};
      ref::Pool(args);
      args.output = got.data();
      k().pool(args);
      EXPECT_TRUE(got.Intact());
      for (int64_t i = 0; i < width; ++i) ExpectNear(got.data()[i], want.data()[i], 1);
    }
  }
}

// Almost all outputs have the bits of ref; none is further than the rounding of probabilities.
TEST_P(SelectionAgainstRef, SparseAttention) {
  for (const auto& [width, rope, heads] : std::vector<std::array<int32_t, 3>>{
           {64, 64, 1}, {67, 3, 2}, {72, 8, 5}, {144, 16, 7}, {192, 64, 13}, {512, 64, 64}}) {
    for (const bool packed : {true, false}) {
      const KvRowLayout layout{width, rope, packed};
      for (const int64_t rows : {1, 3, 5, 63, 64, 66, 127, 200}) {
        const auto q = RandomBf16(heads * width, 22);
        const auto x = RandomBf16(rows * width, 23);
        const auto sink = RandomFloats(heads, 24);
        std::vector<std::byte> stored(static_cast<size_t>(rows * layout.row_bytes()));
        ref::PackKvRows(x.data(), rows, layout, stored.data());
        std::vector<const std::byte*> pointers;
        for (int64_t r = 0; r < rows; ++r) {
          pointers.push_back(stored.data() + r * layout.row_bytes());
        }
        const auto attend = [&](const Kernels& set) {
          Guarded<std::byte> scratch(set.sparse_attention_scratch_bytes(heads, layout), 1);
          Guarded<Bf16> o(heads * width, 2);
          set.sparse_attention({.q = q.data(),
                                .num_heads = heads,
                                .layout = layout,
                                .rows = pointers.data(),
                                .num_rows = rows,
                                .sink = sink.data(),
                                .scale = 1.0f / std::sqrt(static_cast<float>(width)),
                                .output = o.data(),
                                .scratch = scratch.data()});
          EXPECT_TRUE(scratch.Intact() && o.Intact());
          return o.values();
        };
        const auto want = attend(ref::Table());
        const auto got = attend(k());
        int64_t num_different = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          num_different += got[i] != want[i];
          const float value = ToFloat(want[i]);
          ASSERT_NEAR(ToFloat(got[i]), value, 0.01f * std::fabs(value) + 2e-4f)
              << width << " " << rows << " " << i;
        }
        EXPECT_LE(num_different, 2 + heads * width / 50) << width << " " << rows;
      }
    }
  }
}

// NaN in a row comes through to every head; a row of infinite scale as well.
TEST_P(SelectionAgainstRef, SparseAttentionPassesNanOn) {
  const KvRowLayout layout{128, 64, true};
  auto x = RandomBf16(70 * 128, 25);
  x[69 * 128 + 3] = ToBf16(kNan);
  std::vector<std::byte> stored(static_cast<size_t>(70 * layout.row_bytes()));
  k().pack_kv_rows(x.data(), 70, layout, stored.data());
  std::vector<const std::byte*> rows;
  for (int64_t r = 0; r < 70; ++r) rows.push_back(stored.data() + r * layout.row_bytes());
  const auto q = RandomBf16(2 * 128, 26);
  const float sink[2] = {0.0f, 1.0f};
  Guarded<std::byte> scratch(k().sparse_attention_scratch_bytes(2, layout));
  std::vector<Bf16> o(2 * 128);
  k().sparse_attention({.q = q.data(),
                        .num_heads = 2,
                        .layout = layout,
                        .rows = rows.data(),
                        .num_rows = 70,
                        .sink = sink,
                        .output = o.data(),
                        .scratch = scratch.data()});
  for (const Bf16 value : o) EXPECT_TRUE(std::isnan(ToFloat(value)));
}

TEST_P(SelectionAgainstRef, IndexScores) {
  for (const auto& [width, heads] : std::vector<std::pair<int32_t, int32_t>>{
           {32, 1}, {64, 3}, {96, 9}, {128, 64}, {160, 13}, {512, 70}, {2048, 18}}) {
    const IndexRowLayout layout{width};
    for (const int64_t n : {1, 15, 17, 31, 33, 100}) {
      std::vector<std::byte> q(static_cast<size_t>(heads * layout.row_bytes()));
      std::vector<std::byte> keys(static_cast<size_t>(n * layout.row_bytes()));
      ref::PackIndexRows(RandomBf16(heads * width, 27).data(), heads, layout, q.data());
      ref::PackIndexRows(RandomBf16(n * width, 28).data(), n, layout, keys.data());
      if (n == 100) {  // NaN scales of the last head's block and of one key
        q[q.size() - 1] = std::byte{0xFF};
        keys[static_cast<size_t>(50 * layout.row_bytes() + layout.scale_offset())] =
            std::byte{0xFF};
      }
      const auto weights = RandomFloats(heads, 29);
      const std::byte* const runs[] = {keys.data()};
      const auto score = [&](const Kernels& set) {
        Guarded<float> scores(n);
        set.index_scores({.q = q.data(),
                          .weights = weights.data(),
                          .num_heads = heads,
                          .layout = layout,
                          .runs = runs,
                          .run_length = n,
                          .begin = 0,
                          .end = n,
                          .scores = scores.data()});
        EXPECT_TRUE(scores.Intact());
        return scores.values();
      };
      const auto want = score(ref::Table());
      const auto got = score(k());
      for (size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i])) {
          EXPECT_TRUE(std::isnan(got[i]));
        } else {
          const float size = static_cast<float>(heads) * std::sqrt(static_cast<float>(width));
          ASSERT_NEAR(got[i], want[i], 1e-5f * size) << width << " " << heads << " " << i;
        }
      }
    }
  }
}

// Beyond ref all sets have one exp, and sums of the same few steps: docs/numerics.md promises it.
TEST(FastSets, HaveTheSameBitsWhereNoLanesAreAdded) {
  constexpr int32_t kWidth = 160, kHeads = 21, kKeys = 77;
  const IndexRowLayout layout{kWidth};
  std::vector<std::byte> q(static_cast<size_t>(kHeads * layout.row_bytes()));
  std::vector<std::byte> keys(static_cast<size_t>(kKeys * layout.row_bytes()));
  ref::PackIndexRows(RandomBf16(kHeads * kWidth, 30).data(), kHeads, layout, q.data());
  ref::PackIndexRows(RandomBf16(kKeys * kWidth, 31).data(), kKeys, layout, keys.data());
  const auto weights = RandomFloats(kHeads, 32);
  const std::byte* const runs[] = {keys.data()};
  const auto scores = [&](const Kernels& set) {
    std::vector<float> out(kKeys);
    set.index_scores({.q = q.data(),
                      .weights = weights.data(),
                      .num_heads = kHeads,
                      .layout = layout,
                      .runs = runs,
                      .run_length = kKeys,
                      .end = kKeys,
                      .scores = out.data()});
    return out;
  };
  const auto gate = WildBf16(5000, 33);
  const auto up = RandomBf16(5000, 34);
  const auto swiglu = [&](const Kernels& set) {
    std::vector<Bf16> out(5000);
    set.swiglu(
        {.gate = gate.data(), .up = up.data(), .num_rows = 1, .width = 5000, .output = out.data()});
    return out;
  };
  const auto score = RandomFloats(9 * 500, 35, 20.0f);
  const auto kv = RandomFloats(9 * 500, 36);
  const auto pool = [&](const Kernels& set) {
    std::vector<const float*> kv_rows, score_rows;
    for (int r = 0; r < 9; ++r) {
      kv_rows.push_back(kv.data() + r * 500);
      score_rows.push_back(score.data() + r * 500);
    }
    std::vector<Bf16> out(500);
    set.pool({.kv = kv_rows.data(),
              .score = score_rows.data(),
              .num_rows = 9,
              .width = 500,
              .output = out.data()});
    return out;
  };
  const auto fast = Runnable().subspan(1);
  for (const Kernels* set : fast) {
    const Kernels& first = *fast.front();
    EXPECT_EQ(scores(*set), scores(first)) << set->name;
    EXPECT_EQ(swiglu(*set), swiglu(first)) << set->name;
    EXPECT_EQ(pool(*set), pool(first)) << set->name;
  }
}

}  // namespace
}  // namespace dsv4::kernels
