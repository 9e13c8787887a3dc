// Properties of the row-wise entries that hold for every kernel set: a row has the same bits alone
// and in a batch, ragged widths, nothing written outside, what NaN does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "kernels/dispatch.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"
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

std::vector<float> RandomFloats(int64_t n, uint32_t seed) {
  std::vector<float> x;
  for (const Bf16 value : RandomBf16(n, seed)) x.push_back(ToFloat(value));
  return x;
}

// `run(first row, number of rows, output)` writes `row_size` elements of T per row.
template <class T>
void CheckRows(int64_t num_rows, int64_t row_size,
               const std::function<void(int64_t, int64_t, T*)>& run) {
  Guarded<T> whole(num_rows * row_size);
  run(0, num_rows, whole.data());
  EXPECT_TRUE(whole.Intact());
  for (int64_t r = 0; r < num_rows; ++r) {
    Guarded<T> alone(row_size);
    run(r, 1, alone.data());
    EXPECT_TRUE(alone.Intact());
    EXPECT_EQ(std::memcmp(alone.data(), whole.data() + r * row_size,
                          static_cast<size_t>(row_size) * sizeof(T)),
              0)
        << "row " << r << " differs alone";
  }
}

class RowEntries : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(, RowEntries, testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });

TEST_P(RowEntries, ActQuantRowsAreIndependent) {
  for (int64_t cols = 0; cols <= 70; ++cols) {
    const auto x = RandomBf16(3 * cols, 1);
    for (const auto scale : {ActScale::kExact, ActScale::kPowerOfTwo}) {
      const int64_t blocks = (cols + 31) / 32;
      CheckRows<uint8_t>(3, cols, [&](int64_t row, int64_t n, uint8_t* codes) {
        Guarded<float> scales(n * blocks);
        k().act_quant(x.data() + row * cols, n, cols, 32, scale, codes, scales.data());
        EXPECT_TRUE(scales.Intact());
      });
      CheckRows<Bf16>(3, cols, [&](int64_t row, int64_t n, Bf16* y) {
        std::copy_n(x.data() + row * cols, n * cols, y);
        k().act_quant_in_place(y, n, cols, 32, scale);
      });
    }
  }
}

TEST_P(RowEntries, ActQuantOfNanAndInfinity) {
  std::vector<Bf16> x(64, ToBf16(1.0f));
  x[3] = ToBf16(kNan);
  x[40] = ToBf16(-kInf);
  std::vector<uint8_t> codes(64);
  float scales[2];
  k().act_quant(x.data(), 1, 64, 32, ActScale::kPowerOfTwo, codes.data(), scales);
  EXPECT_EQ(codes[3] & 0x7F, 0x7F) << "NaN stays NaN";
  EXPECT_EQ(scales[0], 0x1p-8f) << "and counts for nothing in its block's scale";
  EXPECT_EQ(DecodeE4m3(codes[2]) * scales[0], 1.0f);
  k().act_quant_in_place(x.data(), 1, 64, 32, ActScale::kPowerOfTwo);
  EXPECT_TRUE(std::isnan(ToFloat(x[3])));
  EXPECT_EQ(ToFloat(x[2]), 1.0f);
  for (size_t i = 32; i < 64; ++i)
    EXPECT_TRUE(std::isnan(ToFloat(x[i]))) << "infinity spoils its block";
}

TEST_P(RowEntries, CacheRowsAreIndependentAndKeepWhatQuantisationKeeps) {
  for (const KvRowLayout layout :
       {KvRowLayout{128, 64, true}, KvRowLayout{192, 64, true}, KvRowLayout{512, 64, true},
        KvRowLayout{64, 64, true}, KvRowLayout{144, 16, true}, KvRowLayout{192, 64, false}}) {
    const auto x = RandomBf16(5 * layout.width, 2);
    CheckRows<std::byte>(5, layout.row_bytes(), [&](int64_t row, int64_t n, std::byte* packed) {
      k().pack_kv_rows(x.data() + row * layout.width, n, layout, packed);
    });
    std::vector<Bf16> want = x;
    for (int64_t r = 0; r < 5; ++r) {
      k().act_quant_in_place(want.data() + r * layout.width, 1, layout.num_codes(), 64,
                             ActScale::kPowerOfTwo);
    }
    Guarded<std::byte> packed(5 * layout.row_bytes(), 1);
    Guarded<Bf16> got(5 * layout.width);
    k().pack_kv_rows(x.data(), 5, layout, packed.data());
    k().unpack_kv_rows(packed.data(), 5, layout, got.data());
    EXPECT_TRUE(packed.Intact() && got.Intact());
    EXPECT_EQ(got.values(), want);
  }
}

TEST_P(RowEntries, IndexRowsAreIndependentAndSurviveASecondPacking) {
  for (const int32_t width : {32, 64, 96, 128}) {
    const IndexRowLayout layout{width};
    const auto x = RandomBf16(5 * width, 3);
    CheckRows<std::byte>(5, layout.row_bytes(), [&](int64_t row, int64_t n, std::byte* packed) {
      k().pack_index_rows(x.data() + row * width, n, layout, packed);
    });
    Guarded<std::byte> packed(5 * layout.row_bytes(), 1);
    Guarded<Bf16> y(5 * width);
    k().pack_index_rows(x.data(), 5, layout, packed.data());
    k().unpack_index_rows(packed.data(), 5, layout, y.data());
    EXPECT_TRUE(packed.Intact() && y.Intact());
    const std::vector<Bf16> once = y.values();
    k().pack_index_rows(once.data(), 5, layout, packed.data());
    k().unpack_index_rows(packed.data(), 5, layout, y.data());
    EXPECT_EQ(y.values(), once);
  }
}

TEST_P(RowEntries, NormsOverRaggedWidths) {
  for (int64_t cols = 1; cols <= 67; ++cols) {
    const auto x = RandomBf16(3 * cols, 4);
    const auto w = RandomBf16(cols, 5);
    for (const Bf16* weight : {w.data(), static_cast<const Bf16*>(nullptr)}) {
      CheckRows<Bf16>(3, cols, [&](int64_t row, int64_t n, Bf16* y) {
        k().rms_norm(x.data() + row * cols, weight, n, cols, 1e-6f, y);
      });
    }
    CheckRows<float>(3, 1, [&](int64_t row, int64_t n, float* r) {
      k().rms_factor(x.data() + row * cols, n, cols, 1e-6f, r);
    });
    double sum = 0.0;
    for (int64_t i = 0; i < cols; ++i) {
      sum += std::pow(double{ToFloat(x[static_cast<size_t>(i)])}, 2);
    }
    float r = 0.0f;
    k().rms_factor(x.data(), 1, cols, 1e-6f, &r);
    const double want = 1.0 / std::sqrt(sum / static_cast<double>(cols) + 1e-6);
    EXPECT_NEAR(r, want, want * 1e-6);
  }
}

TEST_P(RowEntries, HadamardIsItsOwnInverseForPowersOfTwo) {
  for (int32_t n = 1; n <= 1024; n *= 2) {
    // One 1 per row: every output is ±n^-1/2, exact where n is a power of four.
    Guarded<Bf16> x(2 * n);
    std::fill_n(x.data(), 2 * n, Bf16{});
    x.data()[n / 3] = x.data()[n + n / 2] = ToBf16(1.0f);
    const auto before = x.values();
    k().hadamard(x.data(), 2, n);
    k().hadamard(x.data(), 2, n);
    EXPECT_TRUE(x.Intact());
    if (std::countr_zero(static_cast<unsigned>(n)) % 2 == 0) {
      EXPECT_EQ(x.values(), before) << n;
    }
  }
}

TEST_P(RowEntries, RopeTurnsBackAndLeavesTheRestAlone) {
  constexpr int32_t kWidth = 18, kHeads = 3, kStride = 25;
  const auto x = RandomBf16(2 * kHeads * kStride, 6);
  std::vector<float> cos, sin;
  for (int i = 0; i < kWidth; ++i) {  // two rows of kWidth / 2 quarter turns, exact in bf16
    cos.push_back(std::array{1.0f, 0.0f, -1.0f, 0.0f}[static_cast<size_t>(i % 4)]);
    sin.push_back(std::array{0.0f, 1.0f, 0.0f, -1.0f}[static_cast<size_t>(i % 4)]);
  }
  Guarded<Bf16> y(2 * kHeads * kStride);
  std::copy(x.begin(), x.end(), y.data());
  RopeArgs args{.x = y.data() + 7,
                .num_rows = 2,
                .row_stride = kHeads * kStride,
                .num_heads = kHeads,
                .head_stride = kStride,
                .width = kWidth,
                .cos = cos.data(),
                .sin = sin.data()};
  k().rope(args);
  EXPECT_NE(y.values(), x);
  for (int i = 0; i < 2 * kHeads * kStride; ++i) {
    if (i % kStride < 7) {
      EXPECT_EQ(y.data()[i], x[static_cast<size_t>(i)]) << i;
    }
  }
  args.inverse = true;
  k().rope(args);
  EXPECT_TRUE(y.Intact());
  for (int i = 0; i < 2 * kHeads * kStride; ++i) {
    EXPECT_EQ(ToFloat(y.data()[i]), ToFloat(x[static_cast<size_t>(i)])) << i;
  }
}

TEST_P(RowEntries, HyperConnectionsOverRaggedWidths) {
  constexpr int32_t kHc = 4;
  const auto pre = RandomFloats(3 * kHc, 7);
  const auto comb = RandomFloats(3 * kHc * kHc, 8);
  for (int64_t dim = 1; dim <= 35; ++dim) {
    const auto h = RandomBf16(3 * kHc * dim, 9);
    const auto x = RandomBf16(3 * dim, 10);
    CheckRows<Bf16>(3, dim, [&](int64_t row, int64_t n, Bf16* y) {
      k().hc_combine(h.data() + row * kHc * dim, pre.data() + row * kHc, n, kHc, dim, y);
    });
    CheckRows<Bf16>(3, kHc * dim, [&](int64_t row, int64_t n, Bf16* y) {
      std::copy_n(h.data() + row * kHc * dim, n * kHc * dim, y);
      k().hc_post(x.data() + row * dim, pre.data() + row * kHc, comb.data() + row * kHc * kHc, n,
                  kHc, dim, y);
    });
  }
}

TEST_P(RowEntries, HcSplitRowsAreIndependentAndColumnsSumToOne) {
  for (const int32_t hc : {1, 2, 4}) {
    const int64_t width = (2 + hc) * hc;
    const auto mixes = RandomFloats(5 * width, 11);
    const auto base = RandomFloats(width, 12);
    const float scale[3] = {0.5f, 1.0f, 2.0f};
    CheckRows<float>(5, hc * hc, [&](int64_t row, int64_t n, float* comb) {
      Guarded<float> pre(n * hc), post(n * hc);
      k().hc_split({.mixes = mixes.data() + row * width,
                    .num_rows = n,
                    .hc = hc,
                    .sinkhorn_iters = 20,
                    .eps = 1e-6f,
                    .scale = scale,
                    .base = base.data(),
                    .pre = pre.data(),
                    .post = post.data(),
                    .comb = comb});
      EXPECT_TRUE(pre.Intact() && post.Intact());
      // The last step divides by the column sums.
      for (int64_t i = 0; i < n * hc; ++i) {
        const float* const column = comb + i / hc * hc * hc + i % hc;
        float sum = 0.0f;
        for (int64_t j = 0; j < hc; ++j) sum += column[j * hc];
        EXPECT_NEAR(sum, 1.0f, 1e-5f);
      }
    });
    CheckRows<float>(5, hc, [&](int64_t row, int64_t n, float* pre) {
      k().hc_head_pre(mixes.data() + row * hc, n, hc, 0.5f, base.data(), 1e-6f, pre);
    });
  }
}

TEST_P(RowEntries, SwigluOverRaggedWidthsAndInPlace) {
  for (int64_t width = 1; width <= 35; ++width) {
    auto gate = RandomBf16(3 * width, 13);
    auto up = RandomBf16(3 * width, 14);
    gate[0] = ToBf16(-300.0f);  // exp overflows: silu is minus zero
    const float weights[3] = {0.5f, 2.0f, 0.25f};
    const SwigluArgs args{.width = width, .limit = 1.0f};
    const auto run = [&](int64_t row, int64_t n, const Bf16* g, const Bf16* u, Bf16* y) {
      SwigluArgs a = args;
      a.gate = g;
      a.up = u;
      a.num_rows = n;
      a.weights = weights + row;
      a.output = y;
      k().swiglu(a);
    };
    CheckRows<Bf16>(3, width, [&](int64_t row, int64_t n, Bf16* y) {
      run(row, n, gate.data() + row * width, up.data() + row * width, y);
    });
    std::vector<Bf16> want(gate.size());
    run(0, 3, gate.data(), up.data(), want.data());
    EXPECT_EQ(ToFloat(want[0]), 0.0f);
    run(0, 3, gate.data(), up.data(), gate.data());
    EXPECT_EQ(gate, want);
  }
}

TEST_P(RowEntries, SwigluPassesNanOn) {
  const Bf16 nan = ToBf16(kNan);
  const Bf16 one = ToBf16(1.0f);
  const Bf16 gate[2] = {nan, one};
  const Bf16 up[2] = {one, nan};
  Bf16 y[2];
  k().swiglu({.gate = gate, .up = up, .num_rows = 1, .width = 2, .limit = 10.0f, .output = y});
  EXPECT_TRUE(std::isnan(ToFloat(y[0])) && std::isnan(ToFloat(y[1])));
}

}  // namespace
}  // namespace dsv4::kernels
