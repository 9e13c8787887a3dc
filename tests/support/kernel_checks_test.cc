// The checks themselves: every one holds for ref, and a wrong kernel fails those of its entry.
#include "tests/support/kernel_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kernels/dispatch.h"
#include "tests/support/against_ref.h"

namespace dsv4::test {
namespace {

using kernels::Kernels;

const Kernels& Ref() { return **kernels::Choose("ref"); }

// The operations of failing checks, among those of `ops`, each with their number.
std::map<std::string, int> Failures(const Kernels& set, const std::set<std::string>& ops) {
  std::map<std::string, int> failures;
  for (const KernelCheck& check : KernelChecks()) {
    if (ops.contains(check.op) && !check.run(set).ok) ++failures[check.op];
  }
  return failures;
}

int NumFailures(const Kernels& set, const std::string& op) { return Failures(set, {op})[op]; }

TEST(KernelChecks, CoverEveryEntryWithDistinctNames) {
  std::set<std::string> ops;
  std::set<std::string> names;
  for (const KernelCheck& check : KernelChecks()) {
    ops.insert(check.op);
    EXPECT_TRUE(names.insert(check.op + " " + check.name).second) << check.op << " " << check.name;
  }
  for (const kernels::Entry& entry : kernels::Entries()) {
    if (entry.name.ends_with("_bytes")) continue;  // sizes: see KernelChecks
    EXPECT_TRUE(ops.contains(std::string(entry.name))) << entry.name;
  }
}

TEST(KernelChecks, AProductThatIsWrongFails) {
  Kernels table = Ref();
  // A row's bits depend on the company.
  table.product = [](const kernels::ProductArgs& args) {
    Ref().product(args);
    auto* const y = static_cast<float*>(args.output);
    if (args.num_rows > 1 && args.end > args.begin) y[0] = y[0] * (1 + 0x1p-20f);
  };
  EXPECT_GT(NumFailures(table, "product"), 20);
  // One value behind the output.
  table.product = [](const kernels::ProductArgs& args) {
    Ref().product(args);
    if (args.end == args.weight->rows) {
      auto* const y = static_cast<float*>(args.output);
      y[(args.num_rows - 1) * args.output_stride + args.end - args.begin] = 0;
    }
  };
  EXPECT_GT(NumFailures(table, "product"), 20);
  // NaN codes read as numbers.
  table.product = [](const kernels::ProductArgs& args) {
    Ref().product(args);
    auto* const y = static_cast<float*>(args.output);
    for (int64_t r = 0; r < args.num_rows; ++r) {
      for (int64_t n = 0; n < args.end - args.begin; ++n) {
        float& value = y[r * args.output_stride + n];
        if (value != value) value = 0;
      }
    }
  };
  EXPECT_GT(NumFailures(table, "product"), 2);
}

// What is written behind the size that the set itself gives.
TEST(KernelChecks, SizesThatAreTooSmallFail) {
  Kernels table = Ref();
  table.prepared_row_bytes = [](kernels::Activation activation, int64_t cols, int32_t block) {
    return Ref().prepared_row_bytes(activation, cols, block) - 1;
  };
  EXPECT_GT(NumFailures(table, "prepare"), 0);
  table.sparse_attention = [](const kernels::SparseAttentionArgs& args) {
    Ref().sparse_attention(args);
    args.scratch[Ref().sparse_attention_scratch_bytes(args.num_heads, args.layout)] = std::byte{0};
  };
  EXPECT_GT(NumFailures(table, "sparse_attention"), 0);
}

// Each fault is small: a last bit, one element, one special value, one byte behind the end.
TEST(KernelChecks, AQuantiserThatIsWrongFails) {
  Kernels table = Ref();
  table.act_quant = [](const Bf16* x, int64_t rows, int64_t cols, int32_t block,
                       kernels::ActScale scale, uint8_t* codes, float* scales) {
    Ref().act_quant(x, rows, cols, block, scale, codes, scales);
    for (int64_t i = 0; i < rows * cols; ++i) codes[i] = codes[i] == 0x80 ? 0 : codes[i];
  };
  table.act_quant_in_place = [](Bf16* x, int64_t rows, int64_t cols, int32_t block,
                                kernels::ActScale scale) {
    Ref().act_quant_in_place(x, rows, cols, block, scale);
    if (cols > 100) x[rows * cols].bits = 0;
  };
  table.pack_kv_rows = [](const Bf16* x, int64_t rows, KvRowLayout layout, std::byte* packed) {
    Ref().pack_kv_rows(x, rows, layout, packed);
    if (layout.packed) packed[layout.row_bytes() - 1] ^= std::byte{1};
  };
  table.unpack_kv_rows = [](const std::byte* packed, int64_t rows, KvRowLayout layout, Bf16* x) {
    Ref().unpack_kv_rows(packed, rows, layout, x);
    for (int64_t i = 0; i < rows * layout.width; ++i) {
      if ((x[i].bits & 0x7F80) == 0) x[i].bits &= 0x8000;  // subnormals to zero
    }
  };
  table.pack_index_rows = [](const Bf16* x, int64_t rows, IndexRowLayout layout,
                             std::byte* packed) {
    Ref().pack_index_rows(x, rows, layout, packed);
    packed[0] ^= std::byte{0x80};
  };
  table.unpack_index_rows = [](const std::byte* packed, int64_t rows, IndexRowLayout layout,
                               Bf16* x) {
    Ref().unpack_index_rows(packed, rows, layout, x);
    for (int64_t i = 0; i < rows * layout.width; ++i) {
      if (x[i].bits == 0x8000) x[i].bits = 0;
    }
  };
  const std::set<std::string> ops = {"act_quant",      "act_quant_in_place", "pack_kv_rows",
                                     "unpack_kv_rows", "pack_index_rows",    "unpack_index_rows"};
  EXPECT_EQ(Failures(table, ops).size(), ops.size());
}

TEST(KernelChecks, ARowKernelThatIsWrongFails) {
  Kernels table = Ref();
  table.rms_norm = [](const Bf16* x, const Bf16* w, int64_t rows, int64_t cols, float eps,
                      Bf16* y) {
    Ref().rms_norm(x, w, rows, cols, eps, y);
    if (cols > 16) y[rows * cols - 1].bits ^= 1;
  };
  table.rms_factor = [](const Bf16* x, int64_t rows, int64_t cols, float eps, float* r) {
    Ref().rms_factor(x, rows, cols, eps, r);
    r[0] *= 1 + 0x1p-22f;
  };
  table.rope = [](const kernels::RopeArgs& args) {
    kernels::RopeArgs wrong = args;
    wrong.inverse = false;
    Ref().rope(wrong);
  };
  table.hadamard = [](Bf16* x, int64_t rows, int32_t n) {
    Ref().hadamard(x, rows, n);
    if (n > 64) x[n / 2].bits ^= 1;
  };
  table.hc_split = [](const kernels::HcSplitArgs& args) {
    kernels::HcSplitArgs wrong = args;
    --wrong.sinkhorn_iters;
    Ref().hc_split(wrong);
  };
  table.hc_head_pre = [](const float* mixes, int64_t rows, int32_t hc, float scale,
                         const float* base, float, float* pre) {
    Ref().hc_head_pre(mixes, rows, hc, scale, base, 0.0f, pre);
  };
  table.hc_combine = [](const Bf16* h, const float* pre, int64_t rows, int32_t hc, int64_t dim,
                        Bf16* x) {
    Ref().hc_combine(h, pre, rows, hc, dim, x);
    if (dim > 4000) x[dim].bits ^= 1;
  };
  table.hc_post = [](const Bf16* x, const float* post, const float* comb, int64_t rows, int32_t hc,
                     int64_t dim, Bf16* h) {
    Ref().hc_post(x, post, comb, rows, hc, dim, h);
    h[rows * hc * dim].bits = 0;
  };
  const std::set<std::string> ops = {"rms_norm", "rms_factor",  "rope",       "hadamard",
                                     "hc_split", "hc_head_pre", "hc_combine", "hc_post"};
  EXPECT_EQ(Failures(table, ops).size(), ops.size());
}

TEST(KernelChecks, AChoiceThatIsWrongFails) {
  Kernels table = Ref();
  table.sparse_attention = [](const kernels::SparseAttentionArgs& args) {
    Ref().sparse_attention(args);
    if (args.num_rows == 66) args.output[5] = ToBf16(ToFloat(args.output[5]) * 1.02f + 1e-3f);
  };
  table.index_scores = [](const kernels::IndexScoreArgs& args) {
    Ref().index_scores(args);
    for (int64_t i = args.begin; i < args.end; ++i) {
      float& score = args.scores[i - args.begin];
      if (score != score) score = 0;
    }
  };
  table.top_k = [](const float* scores, int64_t n, int64_t k, int32_t* indices, int32_t* scratch) {
    Ref().top_k(scores, n, k, indices, scratch);
    if (n > 200000) indices[0] += 1;
  };
  table.pool = [](const kernels::PoolArgs& args) {
    kernels::PoolArgs wrong = args;
    if (wrong.num_rows > 100) --wrong.num_rows;
    Ref().pool(wrong);
  };
  table.route = [](const kernels::RouteArgs& args) {
    Ref().route(args);
    if (args.num_chosen > 1) std::swap(args.chosen[0], args.chosen[1]);
  };
  table.swiglu = [](const kernels::SwigluArgs& args) {
    kernels::SwigluArgs wrong = args;
    wrong.weights = nullptr;
    Ref().swiglu(wrong);
  };
  const std::set<std::string> ops = {
      "sparse_attention", "index_scores", "top_k", "pool", "route", "swiglu"};
  EXPECT_EQ(Failures(table, ops).size(), ops.size());
}

TEST(AgainstRef, GuardsAndTheFirstFailureShow) {
  const auto write = [](const Kernels& kernels, CallBuffers* buffers) {
    auto* const output = buffers->Output<float>(4);
    auto* const scratch = buffers->Scratch<std::byte>(3);
    std::fill_n(output, 4, 1.0f);
    std::fill_n(scratch, &kernels == &Ref() ? 3 : 4, std::byte{7});
  };
  EXPECT_TRUE(SameBitsAsRef(Ref(), write));
  const Kernels other = Ref();
  EXPECT_EQ(SameBitsAsRef(other, write).text, "bytes outside a buffer changed");

  Verdicts verdicts;
  EXPECT_FALSE(verdicts.Total()) << "nothing was compared";
  verdicts.Add("a", {true, "4 elements"});
  EXPECT_EQ(verdicts.Total().text, "4 elements");
  verdicts.Add("b", {false, "wrong"});
  verdicts.Add("c", {false, "wrong too"});
  EXPECT_FALSE(verdicts.Total());
  EXPECT_EQ(verdicts.Total().text, "b: wrong");
}

}  // namespace
}  // namespace dsv4::test
