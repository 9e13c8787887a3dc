#include "checkpoint/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Spelling {
  const char* name;
  const char* canonical;
};

TEST(Names, EverySpellingMeansTheCanonicalName) {
  constexpr Spelling kSpellings[] = {
      {"model.embed_tokens.weight", "embed.weight"},
      {"embed.weight", "embed.weight"},
      {"model.embed.weight", "embed.weight"},
      {"lm_head.weight", "head.weight"},
      {"model.norm.weight", "norm.weight"},
      {"model.hc_head_fn", "hc_head_fn"},
      {"model.layers.3.self_attn.q_a_proj.weight", "layers.3.attn.wq_a.weight"},
      {"model.layers.3.self_attn.q_a_proj.weight_scale_inv", "layers.3.attn.wq_a.scale"},
      {"layers.3.attn.wq_a.scale", "layers.3.attn.wq_a.scale"},
      {"model.layers.3.self_attn.q_a_layernorm.weight", "layers.3.attn.q_norm.weight"},
      {"model.layers.3.self_attn.q_b_proj.weight", "layers.3.attn.wq_b.weight"},
      {"model.layers.3.self_attn.kv_a_proj_with_mqa.weight", "layers.3.attn.wkv.weight"},
      {"model.layers.3.self_attn.kv_proj.weight", "layers.3.attn.wkv.weight"},
      {"model.layers.3.self_attn.kv_a_layernorm.weight", "layers.3.attn.kv_norm.weight"},
      {"model.layers.3.self_attn.o_a_proj.weight", "layers.3.attn.wo_a.weight"},
      {"model.layers.3.self_attn.o_b_proj.weight", "layers.3.attn.wo_b.weight"},
      {"model.layers.3.self_attn.o_proj.weight", "layers.3.attn.wo_b.weight"},
      {"model.layers.3.self_attn.attn_sink", "layers.3.attn.attn_sink"},
      {"model.layers.3.input_layernorm.weight", "layers.3.attn_norm.weight"},
      {"model.layers.3.post_attention_layernorm.weight", "layers.3.ffn_norm.weight"},
      {"model.layers.3.mlp.gate.weight", "layers.3.ffn.gate.weight"},
      {"model.layers.3.mlp.gate.e_score_correction_bias", "layers.3.ffn.gate.bias"},
      {"model.layers.3.mlp.experts.17.gate_proj.weight", "layers.3.ffn.experts.17.w1.weight"},
      {"model.layers.3.mlp.experts.17.down_proj.weight", "layers.3.ffn.experts.17.w2.weight"},
      {"model.layers.3.mlp.experts.17.up_proj.weight", "layers.3.ffn.experts.17.w3.weight"},
      {"layers.3.mlp.shared_experts.w1.weight_scale_inv", "layers.3.ffn.shared_experts.w1.scale"},
      {"layers.2.attn.indexer.compressor.wgate.weight",
       "layers.2.attn.indexer.compressor.wgate.weight"},
      {"", ""},
      {"model.", ""},
      {"a..b.", "a..b."},
  };
  for (const Spelling& spelling : kSpellings) {
    EXPECT_EQ(CanonicalName(spelling.name), spelling.canonical) << spelling.name;
  }
}

TEST(Names, RepeatsOfTheMainModelAreIgnoredInMtpOnly) {
  EXPECT_TRUE(IsIgnoredTensor("mtp.0.emb.tok_emb.weight"));
  EXPECT_TRUE(IsIgnoredTensor("mtp.1.embed.weight"));
  EXPECT_TRUE(IsIgnoredTensor("mtp.0.head.weight"));
  EXPECT_FALSE(IsIgnoredTensor("embed.weight"));
  EXPECT_FALSE(IsIgnoredTensor("head.weight"));
  EXPECT_FALSE(IsIgnoredTensor("mtp.0.norm.weight"));
  EXPECT_FALSE(IsIgnoredTensor("mtp.emb"));
}

TEST(Names, TwoSpellingsOfOneTensorAreRefused) {
  const testing::TempFolder folder;
  const std::array<TensorToWrite, 2> tensors = {
      TensorToWrite{"model.embed_tokens.weight", DType::kU8, {0}, {}},
      TensorToWrite{"embed.weight", DType::kU8, {0}, {}}};
  ASSERT_TRUE(WriteSafetensors(folder / "model.safetensors", tensors));
  const auto checkpoint = Checkpoint::Open(folder.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto by_name = TensorsByCanonicalName(*checkpoint);
  ASSERT_FALSE(by_name);
  EXPECT_THAT(
      by_name.error().message,
      AllOf(HasSubstr("model.embed_tokens.weight and embed.weight both mean embed.weight")));
}

}  // namespace
}  // namespace dsv4
