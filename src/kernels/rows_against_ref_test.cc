// The row-wise entries of every set against ref, bit for bit, over ragged shapes and the model's
// own. Guards stand round every output.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/against_ref.h"

namespace dsv4::kernels {
namespace {

using dsv4::test::Guarded;
using test::AgainstRef;
using test::AllBf16;
using test::ExpectSameBits;
using test::RandomBf16;
using test::RandomFloats;
using test::WildBf16;

class RowsAgainstRef : public AgainstRef {};

INSTANTIATE_TEST_SUITE_P(, RowsAgainstRef, testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });

TEST_P(RowsAgainstRef, Quantisation) {
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

TEST_P(RowsAgainstRef, CacheRows) {
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

TEST_P(RowsAgainstRef, IndexRows) {
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

TEST_P(RowsAgainstRef, Norms) {
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

TEST_P(RowsAgainstRef, RopeAndHadamard) {
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

TEST_P(RowsAgainstRef, HyperConnections) {
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

}  // namespace
}  // namespace dsv4::kernels
