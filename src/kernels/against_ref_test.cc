// Every set against ref over ragged shapes and the model's own: bit for bit where the order of sums
// is the same, else within the rounding of fp32. Guards stand round every output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/ref/ref.h"
#include "tests/support/guarded.h"

namespace dsv4::kernels {
namespace {

using test::Guarded;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<Bf16> RandomBf16(int64_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(ToBf16(normal(rng) * spread));
  return x;
}

std::vector<float> RandomFloats(int64_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(normal(rng) * spread);
  return x;
}

// Every bf16 there is, in blocks: neighbours share an exponent.
std::vector<Bf16> AllBf16() {
  std::vector<Bf16> x;
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) x.push_back(Bf16{static_cast<uint16_t>(bits)});
  return x;
}

// Runs of values of widely different size, with the specials among them.
std::vector<Bf16> WildBf16(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<Bf16> x = RandomBf16(n, seed);
  const float specials[] = {kNan, -kNan, kInf, -kInf, 0.0f, -0.0f, 1e-40f, -3e38f, 448.0f, 0.25f};
  for (size_t i = 0; i < x.size(); ++i) {
    if (i / 97 % 3 == 1)
      x[i] = ToBf16(ToFloat(x[i]) * std::ldexp(1.0f, static_cast<int>(i % 50) - 40));
    if (rng() % 61 == 0) x[i] = ToBf16(specials[rng() % std::size(specials)]);
  }
  return x;
}

// `run(kernels, output)` writes n elements of T; both sets must write the same bytes.
template <class T, class Run>
void ExpectSameBits(const Kernels& k, int64_t n, Run run) {
  Guarded<T> want(n), got(n, sizeof(T) == 1 ? 1 : 2 * sizeof(T));
  run(ref::Table(), want.data());
  run(k, got.data());
  EXPECT_TRUE(got.Intact());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(std::memcmp(got.data() + i, want.data() + i, sizeof(T)), 0) << "element " << i;
  }
}

class AgainstRef : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(, AgainstRef, testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });

TEST_P(AgainstRef, Quantisation) {
  const auto check = [&](const std::vector<Bf16>& x, int64_t rows, int64_t cols, int32_t block) {
    for (const auto scale : {ActScale::kExact, ActScale::kPowerOfTwo}) {
      const int64_t num_scales = rows * ((cols + block - 1) / block);
      ExpectSameBits<uint8_t>(k(), rows * cols, [&](const Kernels& set, uint8_t* codes) {
        Guarded<float> scales(num_scales);
        set.act_quant(x.data(), rows, cols, block, scale, codes, scales.data());
        EXPECT_TRUE(scales.Intact());
      });
      ExpectSameBits<float>(k(), num_scales, [&](const Kernels& set, float* scales) {
        Guarded<uint8_t> codes(rows * cols);
        set.act_quant(x.data(), rows, cols, block, scale, codes.data(), scales);
      });
      ExpectSameBits<Bf16>(k(), rows * cols, [&](const Kernels& set, Bf16* y) {
        std::copy_n(x.data(), rows * cols, y);
        set.act_quant_in_place(y, rows, cols, block, scale);
      });
    }
  };
  for (int64_t cols = 1; cols <= 135; ++cols) check(WildBf16(2 * cols, 1), 2, cols, 32);
  check(WildBf16(3 * 7168, 2), 3, 7168, 128);
  check(AllBf16(), 512, 128, 128);
  check(AllBf16(), 1, 65536, 1);
}

TEST_P(AgainstRef, CacheRows) {
  for (const bool packed : {true, false}) {
    for (const auto& [width, rope] : std::vector<std::pair<int32_t, int32_t>>{
             {64, 64}, {128, 64}, {144, 16}, {192, 64}, {72, 8}, {67, 3}, {512, 64}, {64, 0}}) {
      const KvRowLayout layout{width, rope, packed};
      constexpr int64_t kRows = 30;
      const auto x = WildBf16(kRows * width, 3);
      ExpectSameBits<std::byte>(k(), kRows * layout.row_bytes(),
                                [&](const Kernels& set, std::byte* out) {
                                  std::memset(out, 0x55, static_cast<size_t>(layout.row_bytes()));
                                  set.pack_kv_rows(x.data(), kRows, layout, out);
                                });
      // Any bytes unpack alike, all 256 codes and scales among them.
      std::mt19937 rng(4);
      std::vector<std::byte> raw(static_cast<size_t>(kRows * layout.row_bytes()));
      for (std::byte& b : raw) b = static_cast<std::byte>(rng());
      ExpectSameBits<Bf16>(k(), kRows * width, [&](const Kernels& set, Bf16* y) {
        set.unpack_kv_rows(raw.data(), kRows, layout, y);
      });
    }
  }
}

TEST_P(AgainstRef, IndexRows) {
  for (int32_t width = 32; width <= 256; width += 32) {
    const IndexRowLayout layout{width};
    constexpr int64_t kRows = 40;
    const auto x = WildBf16(kRows * width, 5);
    ExpectSameBits<std::byte>(k(), kRows * layout.row_bytes(),
                              [&](const Kernels& set, std::byte* out) {
                                set.pack_index_rows(x.data(), kRows, layout, out);
                              });
    std::mt19937 rng(6);
    std::vector<std::byte> raw(static_cast<size_t>(kRows * layout.row_bytes()));
    for (std::byte& b : raw) b = static_cast<std::byte>(rng());
    ExpectSameBits<Bf16>(k(), kRows * width, [&](const Kernels& set, Bf16* y) {
      set.unpack_index_rows(raw.data(), kRows, layout, y);
    });
  }
  const auto all = AllBf16();
  ExpectSameBits<std::byte>(k(), 512 * IndexRowLayout{128}.row_bytes(),
                            [&](const Kernels& set, std::byte* out) {
                              set.pack_index_rows(all.data(), 512, IndexRowLayout{128}, out);
                            });
}

TEST_P(AgainstRef, Norms) {
  std::vector<int64_t> widths = {512, 1024, 1536, 4096, 7168, 16384, 28672};
  for (int64_t cols = 1; cols <= 70; ++cols) widths.push_back(cols);
  for (const int64_t cols : widths) {
    const auto x = RandomBf16(2 * cols, 7, 3.0f);
    const auto w = RandomBf16(cols, 8);
    for (const Bf16* weight : {w.data(), static_cast<const Bf16*>(nullptr)}) {
      ExpectSameBits<Bf16>(k(), 2 * cols, [&](const Kernels& set, Bf16* y) {
        set.rms_norm(x.data(), weight, 2, cols, 1e-6f, y);
      });
      ExpectSameBits<Bf16>(k(), 2 * cols, [&](const Kernels& set, Bf16* y) {
        std::copy(x.begin(), x.end(), y);
        set.rms_norm(y, weight, 2, cols, 1e-6f, y);
      });
    }
    ExpectSameBits<float>(
        k(), 2, [&](const Kernels& set, float* r) { set.rms_factor(x.data(), 2, cols, 1e-6f, r); });
  }
}

TEST_P(AgainstRef, RopeAndHadamard) {
  for (int32_t width = 2; width <= 70; width += 2) {
    constexpr int32_t kHeads = 3;
    const int64_t stride = width + 5;
    const auto x = RandomBf16(2 * kHeads * stride, 9);
    const auto cos = RandomFloats(width, 10);
    const auto sin = RandomFloats(width, 11);
    for (const bool inverse : {false, true}) {
      ExpectSameBits<Bf16>(k(), 2 * kHeads * stride, [&](const Kernels& set, Bf16* y) {
        std::copy(x.begin(), x.end(), y);
        set.rope({.x = y + 5,
                  .num_rows = 2,
                  .row_stride = kHeads * stride,
                  .num_heads = kHeads,
                  .head_stride = stride,
                  .width = width,
                  .cos = cos.data(),
                  .sin = sin.data(),
                  .inverse = inverse});
      });
    }
  }
  for (int32_t n = 1; n <= 4096; n *= 2) {
    const auto x = RandomBf16(3 * n, 12);
    ExpectSameBits<Bf16>(k(), 3 * n, [&](const Kernels& set, Bf16* y) {
      std::copy(x.begin(), x.end(), y);
      set.hadamard(y, 3, n);
    });
  }
}

TEST_P(AgainstRef, HyperConnections) {
  std::vector<int64_t> dims = {4096, 7168};
  for (int64_t dim = 1; dim <= 50; ++dim) dims.push_back(dim);
  for (const int32_t hc : {1, 2, 3, 4, 8}) {
    const auto pre = RandomFloats(2 * hc, 13);
    const auto comb = RandomFloats(2 * hc * hc, 14);
    for (const int64_t dim : dims) {
      const auto h = RandomBf16(2 * hc * dim, 15);
      const auto x = RandomBf16(2 * dim, 16);
      ExpectSameBits<Bf16>(k(), 2 * dim, [&](const Kernels& set, Bf16* y) {
        set.hc_combine(h.data(), pre.data(), 2, hc, dim, y);
      });
      ExpectSameBits<Bf16>(k(), 2 * hc * dim, [&](const Kernels& set, Bf16* y) {
        std::copy(h.begin(), h.end(), y);
        set.hc_post(x.data(), pre.data(), comb.data(), 2, hc, dim, y);
      });
    }
    const int64_t width = (2 + hc) * hc;
    const auto mixes = RandomFloats(6 * width, 17, 3.0f);
    const auto base = RandomFloats(width, 18);
    const float scale[3] = {0.5f, 1.0f, 2.0f};
    ExpectSameBits<float>(k(), 6 * hc * hc, [&](const Kernels& set, float* comb_out) {
      Guarded<float> pre_out(6 * hc), post_out(6 * hc);
      set.hc_split({.mixes = mixes.data(),
                    .num_rows = 6,
                    .hc = hc,
                    .scale = scale,
                    .base = base.data(),
                    .pre = pre_out.data(),
                    .post = post_out.data(),
                    .comb = comb_out});
      EXPECT_TRUE(pre_out.Intact() && post_out.Intact());
    });
  }
}

TEST_P(AgainstRef, TopK) {
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

TEST_P(AgainstRef, SwigluAndPool) {
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
TEST_P(AgainstRef, SparseAttention) {
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
TEST_P(AgainstRef, SparseAttentionPassesNanOn) {
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

TEST_P(AgainstRef, IndexScores) {
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
  if (Runnable().size() < 2) GTEST_SKIP() << "no set but ref runs here";
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
  const Kernels& first = *Runnable()[1];
  for (const Kernels* set : Runnable().subspan(1)) {
    EXPECT_EQ(scores(*set), scores(first)) << set->name;
    EXPECT_EQ(swiglu(*set), swiglu(first)) << set->name;
    EXPECT_EQ(pool(*set), pool(first)) << set->name;
  }
}

}  // namespace
}  // namespace dsv4::kernels
