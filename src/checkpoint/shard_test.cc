#include "checkpoint/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dsv4 {
namespace {

TEST(Shard, AxesFollowTheNames) {
  for (const char* const name :
       {"embed.weight", "head.weight", "layers.0.attn.wq_b.weight", "layers.0.attn.wq_b.scale",
        "layers.3.attn.wo_a.weight", "layers.3.attn.wo_a.scale", "layers.3.attn.attn_sink",
        "layers.2.attn.indexer.wq_b.scale", "layers.2.attn.indexer.weights_proj.weight",
        "mtp.0.attn.wq_b.weight", "mtp.0.attn.attn_sink"}) {
    EXPECT_EQ(ShardAxisOf(name), ShardAxis::kRows) << name;
  }
  for (const char* const name : {"layers.0.attn.wo_b.weight", "mtp.0.attn.wo_b.scale"}) {
    EXPECT_EQ(ShardAxisOf(name), ShardAxis::kColumns) << name;
  }
  for (const char* const name :
       {"layers.0.ffn.experts.0.w1.weight", "mtp.0.ffn.experts.17.w2.scale"}) {
    EXPECT_EQ(ShardAxisOf(name), ShardAxis::kExperts) << name;
  }
  for (const char* const name :
       {"norm.weight", "hc_head_fn", "layers.0.attn.wq_a.weight", "layers.0.attn.wkv.scale",
        "layers.0.attn.q_norm.weight", "layers.2.attn.compressor.wkv.weight",
        "layers.2.attn.indexer.compressor.ape", "layers.0.ffn.gate.tid2eid",
        "layers.0.ffn.shared_experts.w1.weight", "mtp.0.e_proj.weight", "mtp.0.hc_head_scale"}) {
    EXPECT_EQ(ShardAxisOf(name), ShardAxis::kWhole) << name;
  }
}

TEST(Shard, ExpertsAreCounted) {
  EXPECT_EQ(ExpertOf("layers.0.ffn.experts.0.w1.weight"), 0);
  EXPECT_EQ(ExpertOf("mtp.0.ffn.experts.383.w2.scale"), 383);
  EXPECT_EQ(ExpertOf("layers.0.ffn.shared_experts.w1.weight"), std::nullopt);
  EXPECT_EQ(ExpertOf("layers.0.ffn.experts.x.w1.weight"), std::nullopt);
  EXPECT_EQ(ExpertOf("layers.0.ffn.experts.1"), std::nullopt);
  EXPECT_EQ(ExpertOf("layers.0.ffn.experts.-1.w1.weight"), std::nullopt);
}

TEST(Shard, PartsAreEqualAndContiguous) {
  for (int rank = 0; rank < 4; ++rank) {
    const auto range = ShardRangeOf(12, rank, 4);
    ASSERT_TRUE(range);
    EXPECT_EQ(range->begin, 3 * rank);
    EXPECT_EQ(range->end, 3 * rank + 3);
  }
  EXPECT_EQ(ShardRangeOf(13, 0, 4).error().message, "13 cannot be divided over 4 ranks");
}

}  // namespace
}  // namespace dsv4
