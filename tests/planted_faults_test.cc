// The golden vectors catch mistakes: each of these plants one wrong rounding or indexing rule, in a
// kernel or in the configuration, and the block that holds the rule must no longer agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"
#include "ops/cpu_ops_impl.h"
#include "tests/golden_support/golden_model.h"
#include "tests/support/temp_folder.h"

namespace dsv4::test {
namespace {

using kernels::Kernels;

const Kernels& Right() { return **kernels::Choose("ref"); }

// A copy of the kernel table with one entry replaced.
using PlantInKernels = void (*)(Kernels*);

struct Fault {
  const char* name;
  const char* variant;
  int block;
  PlantInKernels plant = nullptr;
  // Or: a field of config.json and its wrong value, as JSON text.
  const char* field = nullptr;
  const char* value = nullptr;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

void TransposeComb(Kernels* k) {
  k->hc_post = [](const Bf16* x, const float* post, const float* comb, int64_t num_rows, int32_t hc,
                  int64_t dim, Bf16* h) {
    std::vector<float> transposed(static_cast<size_t>(num_rows * hc * hc));
    for (int64_t r = 0; r < num_rows; ++r) {
      for (int64_t i = 0; i < hc; ++i) {
        for (int64_t j = 0; j < hc; ++j) {
          transposed[static_cast<size_t>((r * hc + i) * hc + j)] = comb[(r * hc + j) * hc + i];
        }
      }
    }
    Right().hc_post(x, post, transposed.data(), num_rows, hc, dim, h);
  };
}

void NoSink(Kernels* k) {
  k->sparse_attention = [](const kernels::SparseAttentionArgs& args) {
    const std::vector<float> sink(static_cast<size_t>(args.num_heads),
                                  -std::numeric_limits<float>::infinity());
    kernels::SparseAttentionArgs wrong = args;
    wrong.sink = sink.data();
    Right().sparse_attention(wrong);
  };
}

// The newest entry is not yet seen: causality one entry late.
void NewestEntryUnseen(Kernels* k) {
  k->sparse_attention = [](const kernels::SparseAttentionArgs& args) {
    constexpr int64_t kWindow = 16;  // of the variant
    kernels::SparseAttentionArgs wrong = args;
    if (wrong.num_rows > kWindow) --wrong.num_rows;
    Right().sparse_attention(wrong);
  };
}

void NoOverlap(Kernels* k) {
  k->pool = [](const kernels::PoolArgs& args) {
    kernels::PoolArgs wrong = args;
    if (wrong.num_rows == 8) {
      wrong.kv += 4;
      wrong.score += 4;
      wrong.num_rows = 4;
    }
    Right().pool(wrong);
  };
}

void NoRouterBias(Kernels* k) {
  k->route = [](const kernels::RouteArgs& args) {
    kernels::RouteArgs wrong = args;
    wrong.bias = nullptr;
    Right().route(wrong);
  };
}

void QuantisedRotary(Kernels* k) {
  k->pack_kv_rows = [](const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed) {
    std::vector<Bf16> wrong(x, x + num_rows * layout.width);
    Right().act_quant_in_place(wrong.data(), num_rows, layout.width, KvRowLayout::kBlock,
                               kernels::ActScale::kPowerOfTwo);
    Right().pack_kv_rows(wrong.data(), num_rows, layout, packed);
  };
}

// Scales of amax/448 where they must be powers of two.
void ExactKvScales(Kernels* k) {
  k->pack_kv_rows = [](const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed) {
    std::vector<Bf16> wrong(x, x + num_rows * layout.width);
    for (int64_t row = 0; row < num_rows; ++row) {
      Right().act_quant_in_place(wrong.data() + row * layout.width, 1, layout.num_codes(),
                                 KvRowLayout::kBlock, kernels::ActScale::kExact);
    }
    Right().pack_kv_rows(wrong.data(), num_rows, layout, packed);
  };
}

void NoHadamard(Kernels* k) {
  k->hadamard = [](Bf16*, int64_t, int32_t) {};
}

void NoInverseRope(Kernels* k) {
  k->rope = [](const kernels::RopeArgs& args) {
    if (!args.inverse) Right().rope(args);
  };
}

void NoQueryNorm(Kernels* k) {
  k->rms_norm = [](const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps,
                   Bf16* y) {
    if (w != nullptr) return Right().rms_norm(x, w, num_rows, cols, eps, y);
    std::copy_n(x, num_rows * cols, y);
  };
}

void ExactActivationScales(Kernels* k) {
  k->prepare = [](const kernels::PrepareArgs& args) {
    kernels::PrepareArgs wrong = args;
    wrong.scale = kernels::ActScale::kExact;
    Right().prepare(wrong);
  };
}

void TruncatingBf16Sum(Kernels* k) {
  k->hc_combine = [](const Bf16* h, const float* pre, int64_t num_rows, int32_t hc, int64_t dim,
                     Bf16* x) {
    Right().hc_combine(h, pre, num_rows, hc, dim, x);
    for (int64_t i = 0; i < num_rows * dim; ++i) {
      x[i].bits = static_cast<uint16_t>(x[i].bits & 0xFFF8u);
    }
  };
}

constexpr Fault kFaults[] = {
    {"comb_transposed", "flash-tiny", 2, TransposeComb},
    {"sinkhorn_once", "flash-tiny", 4, nullptr, "hc_sinkhorn_iters", "1"},
    {"no_sink", "flash-tiny", 0, NoSink},
    {"no_yarn", "flash-tiny", 2, nullptr, "rope_scaling", "null"},
    {"rope_base", "flash-tiny", 2, nullptr, "compress_rope_theta", "10000"},
    {"window_one_short", "flash-tiny", 0, nullptr, "sliding_window", "15"},
    {"window_one_long", "flash-tiny", 0, nullptr, "sliding_window", "17"},
    {"no_overlap", "flash-tiny", 2, NoOverlap},
    {"newest_entry_unseen_csa", "flash-tiny", 2, NewestEntryUnseen},
    {"newest_entry_unseen_hca", "flash-tiny", 3, NewestEntryUnseen},
    {"no_router_bias", "flash-tiny", 2, NoRouterBias},
    {"clamp_missing", "flash-tiny", 0, nullptr, "swiglu_limit", "null"},
    {"route_scale", "flash-tiny", 0, nullptr, "routed_scaling_factor", "1.0"},
    {"rotary_quantised", "one-window", 0, QuantisedRotary},
    {"exact_kv_scales", "pro-tiny", 0, ExactKvScales},
    {"no_hadamard", "flash-tiny", 2, NoHadamard},
    {"no_inverse_rope", "flash-tiny", 0, NoInverseRope},
    {"no_query_norm", "flash-tiny", 0, NoQueryNorm},
    {"exact_activation_scales", "flash-tiny", 0, ExactActivationScales},
    {"hc_sum_truncated", "flash-tiny", 0, TruncatingBf16Sum},
    {"index_topk", "one-csa", 0, nullptr, "index_topk", "15"},
};

// The variant's checkpoint with one field of its configuration changed.
void WriteMutated(const std::filesystem::path& checkpoint, const Fault& fault,
                  const testing::TempFolder& folder) {
  std::ifstream file(checkpoint / "config.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  json::Value config = json::Parse(text).value();
  ASSERT_NE(config.Find(fault.field), nullptr) << fault.field;
  config.Set(fault.field, json::Parse(fault.value).value());
  folder.Write("config.json", json::Dump(config));
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    const auto name = entry.path().filename();
    if (name != "config.json") {
      std::filesystem::create_symlink(entry.path(), folder.path() / name);
    }
  }
}

class PlantedFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(PlantedFaultTest, IsCaught) {
  const Fault& fault = GetParam();
  const auto root = std::filesystem::path(DSV4_TEST_DATA) / "model" / fault.variant;
  Kernels planted = Right();
  const testing::TempFolder folder;
  std::filesystem::path checkpoint = root / "checkpoint";
  if (fault.plant != nullptr) fault.plant(&planted);
  if (fault.field != nullptr) {
    WriteMutated(checkpoint, fault, folder);
    checkpoint = folder.path();
  }
  const std::unique_ptr<Ops> ops = MakeCpuOps(planted, 2);
  const auto golden = GoldenModel::Load(root, checkpoint, *ops);
  ASSERT_TRUE(golden) << golden.error().message;
  bool caught = false;
  for (const Verdict& verdict : (*golden)->CheckBlock(fault.block)) caught |= !verdict.ok;
  EXPECT_TRUE(caught) << "every tap of block " << fault.block << " still agrees";
}

// Every query sees one entry of the future, where the step has made one.
class LeakyOps : public CpuOps {
 public:
  using CpuOps::CpuOps;
  void Attention(const AttentionArgs& args, Workspace& workspace) override {
    std::vector<QueryRow> rows(args.rows.begin(), args.rows.end());
    const int64_t made = rows.back().num_entries;
    for (QueryRow& row : rows) {
      if (row.selected == nullptr) row.num_entries = std::min(row.num_entries + 1, made);
    }
    AttentionArgs leaky = args;
    leaky.rows = rows;
    CpuOps::Attention(leaky, workspace);
  }
};

TEST(PlantedFault, AnEntryOfTheFutureIsCaught) {
  const auto root = std::filesystem::path(DSV4_TEST_DATA) / "model" / "flash-tiny";
  LeakyOps ops(Right(), 2);
  const auto golden = GoldenModel::Load(root, root / "checkpoint", ops);
  ASSERT_TRUE(golden) << golden.error().message;
  bool caught = false;
  for (const Verdict& verdict : (*golden)->CheckBlock(3)) caught |= !verdict.ok;
  EXPECT_TRUE(caught);
}

INSTANTIATE_TEST_SUITE_P(Rules, PlantedFaultTest, ::testing::ValuesIn(kFaults),
                         [](const ::testing::TestParamInfo<Fault>& param) {
                           return std::string(param.param.name);
                         });

}  // namespace
}  // namespace dsv4::test
