// The profile of a forward against what the configuration and the checkpoint's files say.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "ops/cpu_ops.h"

namespace dsv4 {
namespace {

constexpr char kFolder[] = DSV4_TEST_DATA "/model/flash-tiny/checkpoint";
constexpr int32_t kRows = 40;

class ProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::Model::Load(kFolder, *ops_, {});
    ASSERT_TRUE(model) << model.error().message;
    config_ = (*model)->config();
    auto cache = model::KvCache::Create(config_, 1, 1);
    ASSERT_TRUE(cache) << cache.error().message;
    std::vector<int32_t> tokens(kRows);
    std::iota(tokens.begin(), tokens.end(), 0);
    const int32_t page = 0, last = kRows - 1;
    const model::SequenceRun run{0, 0, kRows, {&page, 1}};
    std::vector<float> logits(static_cast<size_t>(config_.vocab_size));
    ops_->set_profile(&profile_);
    (*model)->Forward({tokens, {&run, 1}, {&last, 1}}, *cache, {logits.data(), nullptr, nullptr});
  }

  int64_t calls(OpKind kind) const { return profile_[kind].calls; }
  int64_t Layers(int32_t ratio) const {
    const auto& ratios = config_.compress_ratios;
    return std::count(ratios.begin(), ratios.begin() + config_.num_layers, ratio);
  }

  std::unique_ptr<Ops> ops_ = MakeCpuOps(**kernels::Choose(""), 2);
  model::ModelConfig config_;
  OpProfile profile_;
};

TEST_F(ProfileTest, EveryOperationOfTheForwardIsCounted) {
  const int64_t layers = config_.num_layers;
  const int64_t csa = Layers(4);
  const int64_t hca = Layers(128);  // completes no entry within 40 tokens
  ASSERT_GT(csa, 0);
  ASSERT_GT(hca, 0);
  EXPECT_EQ(calls(OpKind::kEmbed), 1);
  EXPECT_EQ(calls(OpKind::kHyperPre), 2 * layers);
  EXPECT_EQ(calls(OpKind::kHyperPost), 2 * layers);
  EXPECT_EQ(calls(OpKind::kHyperHead), 1);
  // The input of each sublayer, qr, q and kv; entries and index keys; the final norm.
  EXPECT_EQ(calls(OpKind::kRmsNorm), 5 * layers + 2 * csa + 1);
  EXPECT_EQ(calls(OpKind::kAttention), layers);
  EXPECT_EQ(calls(OpKind::kIndexSelect), csa);
  EXPECT_EQ(calls(OpKind::kPool), 2 * csa);
  EXPECT_EQ(calls(OpKind::kHadamard), 2 * csa);
  EXPECT_EQ(calls(OpKind::kRoute), layers);
  EXPECT_EQ(calls(OpKind::kExpertsProducts), 2 * layers) << "the routed ones and the shared one";
  EXPECT_EQ(calls(OpKind::kExpertsRest), 2 * layers);
  for (size_t i = 0; i < kNumOpKinds; ++i) {
    const OpProfile::Row& row = profile_.rows[i];
    const std::string_view name = Name(static_cast<OpKind>(i));
    if (name == "linear_fp4") {
      EXPECT_EQ(row.calls, 0) << "only experts are FP4";
      continue;
    }
    EXPECT_GT(row.calls, 0) << name;
    EXPECT_GT(row.ns, 0) << name;
  }
}

// Every FP8 matrix outside the experts is read once, in whole.
TEST_F(ProfileTest, ProductsReadTheBytesOfTheFiles) {
  const Checkpoint checkpoint = Checkpoint::Open(kFolder).value();
  int64_t bytes = 0, elements = 0, shared_bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (!tensor.name.starts_with("layers.") || tensor.name.find(".experts.") != std::string::npos) {
      continue;
    }
    const bool weight = tensor.dtype == DType::kF8E4M3;
    if (!weight && tensor.dtype != DType::kF8E8M0) continue;
    const auto size = static_cast<int64_t>(tensor.data.size());
    if (tensor.name.find(".shared_experts.") != std::string::npos) {
      shared_bytes += size;
      continue;
    }
    bytes += size;
    if (weight) elements += tensor.num_elements();
  }
  // wo_a has one product for each of its groups.
  EXPECT_EQ(calls(OpKind::kLinearFp8), config_.num_layers * (4 + config_.o_groups) + Layers(4));
  EXPECT_EQ(profile_[OpKind::kLinearFp8].bytes, bytes);
  EXPECT_EQ(profile_[OpKind::kLinearFp8].flops, 2 * kRows * elements);
  EXPECT_GT(profile_[OpKind::kExpertsProducts].bytes, shared_bytes);
  // Each row goes through its experts and the shared one.
  const int64_t expert = 3 * config_.hidden_size * config_.moe_inter_dim;
  EXPECT_EQ(profile_[OpKind::kExpertsProducts].flops,
            2 * kRows * (config_.num_activated_experts + 1) * expert * config_.num_layers);
}

// Two for each multiply-add: q · k and p · v over all heads, the rows each query sees.
TEST_F(ProfileTest, AttentionReadsTheRowsThatQueriesSee) {
  int64_t seen = 0;
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    const int32_t ratio = config_.compress_ratios[static_cast<size_t>(layer)];
    for (int64_t p = 0; p < kRows; ++p) {
      seen += std::min<int64_t>(p + 1, config_.window_size);
      if (ratio == 4) seen += std::min<int64_t>((p + 1) / 4, config_.index_topk);
    }
  }
  const model::KvLayout layout(config_);
  const OpProfile::Row& row = profile_[OpKind::kAttention];
  EXPECT_EQ(row.bytes, seen * layout.row().row_bytes());
  EXPECT_EQ(row.flops, 4 * seen * config_.num_heads * config_.head_dim);
}

}  // namespace
}  // namespace dsv4
