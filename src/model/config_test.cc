#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/kv_cache.h"
#include "tests/support/temp_folder.h"

namespace dsv4::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kCheckpointDialect[] = R"({
  "architectures": ["DeepseekV4ForCausalLM"], "attention_bias": false, "bos_token_id": 0,
  "eos_token_id": 1, "expert_dtype": "fp4", "hc_eps": 1e-06, "hc_mult": 4, "hc_sinkhorn_iters": 20,
  "head_dim": 512, "hidden_act": "silu", "hidden_size": 4096, "index_head_dim": 128,
  "index_n_heads": 64, "index_topk": 512, "max_position_embeddings": 1048576,
  "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
  "norm_topk_prob": true, "num_attention_heads": 64, "num_experts_per_tok": 6,
  "num_hidden_layers": 4, "num_hash_layers": 3, "num_key_value_heads": 1,
  "num_nextn_predict_layers": 1, "o_groups": 8, "o_lora_rank": 1024, "q_lora_rank": 1024,
  "qk_rope_head_dim": 64,
  "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                          "scale_fmt": "ue8m0", "weight_block_size": [128, 128]},
  "rms_norm_eps": 1e-06,
  "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 16,
                   "original_max_position_embeddings": 65536, "type": "yarn"},
  "rope_theta": 10000, "routed_scaling_factor": 1.5, "scoring_func": "sqrtsoftplus",
  "sliding_window": 128, "swiglu_limit": 10.0, "tie_word_embeddings": false,
  "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "vocab_size": 129280,
  "compress_rope_theta": 160000, "compress_ratios": [0, 0, 4, 128, 0]})";

constexpr char kInferenceDialect[] = R"({
  "vocab_size": 129280, "dim": 4096, "moe_inter_dim": 2048, "n_layers": 4, "n_hash_layers": 3,
  "n_mtp_layers": 1, "n_heads": 64, "n_routed_experts": 256, "n_shared_experts": 1,
  "n_activated_experts": 6, "score_func": "sqrtsoftplus", "route_scale": 1.5, "swiglu_limit": 10.0,
  "q_lora_rank": 1024, "head_dim": 512, "rope_head_dim": 64, "norm_eps": 1e-6, "o_groups": 8,
  "o_lora_rank": 1024, "window_size": 128, "original_seq_len": 65536, "rope_factor": 16,
  "beta_fast": 32, "beta_slow": 1, "rope_theta": 10000, "compress_rope_theta": 160000,
  "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "hc_mult": 4,
  "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "dtype": "fp8", "expert_dtype": "fp4",
  "scale_fmt": "ue8m0", "scale_dtype": "fp8", "compress_ratios": [0, 0, 4, 128, 0]})";

// What a case does to a configuration: `key` (or member "a.b") becomes the JSON `value`; an empty
// value takes the key away.
struct Change {
  const char* key;
  const char* value;
};

json::Value Changed(json::Value object, std::string_view key, const std::string& value) {
  const size_t dot = key.find('.');
  const std::string head(key.substr(0, dot));
  if (dot != std::string_view::npos) {
    const json::Value* inner = object.Find(head);
    object.Set(head, Changed(inner == nullptr ? json::Value::MakeObject() : *inner,
                             key.substr(dot + 1), value));
  } else if (!value.empty()) {
    object.Set(head, json::Parse(value).value());
  } else {
    json::Value::Object members = object.members();
    std::erase_if(members, [&](const json::Value::Member& member) { return member.first == head; });
    return json::Value::MakeObject(std::move(members));
  }
  return object;
}

Result<ModelConfig> ParseChanged(const char* text, const std::vector<Change>& changes) {
  json::Value json = json::Parse(text).value();
  for (const Change& change : changes) json = Changed(std::move(json), change.key, change.value);
  return ParseConfig(json);
}

std::string ErrorOf(const Result<ModelConfig>& result) {
  return result ? "no error" : result.error().message;
}

void ExpectFlashLike(const ModelConfig& config) {
  EXPECT_EQ(config.hidden_size, 4096);
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.num_mtp_layers, 1);
  EXPECT_EQ(config.num_hash_layers, 3);
  EXPECT_EQ(config.vocab_size, 129280);
  EXPECT_EQ(config.max_positions, 1048576);
  EXPECT_EQ(config.num_heads, 64);
  EXPECT_EQ(config.head_dim, 512);
  EXPECT_EQ(config.rope_head_dim, 64);
  EXPECT_EQ(config.q_lora_rank, 1024);
  EXPECT_EQ(config.o_groups, 8);
  EXPECT_EQ(config.o_lora_rank, 1024);
  EXPECT_EQ(config.window_size, 128);
  EXPECT_THAT(config.compress_ratios, ElementsAre(0, 0, 4, 128, 0));
  EXPECT_EQ(config.index_num_heads, 64);
  EXPECT_EQ(config.index_head_dim, 128);
  EXPECT_EQ(config.index_topk, 512);
  EXPECT_EQ(config.num_routed_experts, 256);
  EXPECT_EQ(config.num_activated_experts, 6);
  EXPECT_EQ(config.num_shared_experts, 1);
  EXPECT_EQ(config.moe_inter_dim, 2048);
  EXPECT_EQ(config.router_score, RouterScore::kSqrtSoftplus);
  EXPECT_EQ(config.route_scale, 1.5f);
  EXPECT_EQ(config.swiglu_limit, 10.0f);
  EXPECT_EQ(config.norm_eps, 1e-6f);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.compress_rope_theta, 160000.0);
  ASSERT_TRUE(config.yarn);
  EXPECT_EQ(config.yarn->original_max_positions, 65536);
  EXPECT_EQ(config.yarn->factor, 16.0);
  EXPECT_EQ(config.yarn->beta_fast, 32.0);
  EXPECT_EQ(config.yarn->beta_slow, 1.0);
  EXPECT_EQ(config.hc_mult, 4);
  EXPECT_EQ(config.hc_sinkhorn_iters, 20);
  EXPECT_EQ(config.hc_eps, 1e-6f);
  EXPECT_EQ(config.linear_format, LinearFormat::kFp8);
  EXPECT_EQ(config.expert_format, LinearFormat::kFp4);
  EXPECT_TRUE(config.power_of_two_scales);
  EXPECT_EQ(config.weight_block_rows, 128);
  EXPECT_EQ(config.weight_block_cols, 128);
}

TEST(Config, BothDialectsDescribeTheSameModel) {
  for (const char* text : {kCheckpointDialect, kInferenceDialect}) {
    const Result<ModelConfig> config = ParseChanged(text, {});
    ASSERT_TRUE(config) << config.error().message;
    ExpectFlashLike(*config);
  }
}

TEST(Config, EitherNameServesInAMixture) {
  const Result<ModelConfig> config = ParseChanged(kCheckpointDialect, {{"num_attention_heads", ""},
                                                                       {"n_heads", "64"},
                                                                       {"window_size", "128"},
                                                                       {"norm_eps", "0.000001"},
                                                                       {"rope_scaling.factor", ""},
                                                                       {"rope_factor", "16"}});
  ASSERT_TRUE(config) << config.error().message;
  ExpectFlashLike(*config);
}

TEST(Config, AbsentAndNullFieldsTakeThePublishedValues) {
  for (const char* absent : {"", "null"}) {
    const Result<ModelConfig> config =
        ParseChanged(kCheckpointDialect, {{"max_position_embeddings", absent},
                                          {"qk_rope_head_dim", absent},
                                          {"sliding_window", absent},
                                          {"index_n_heads", absent},
                                          {"index_head_dim", absent},
                                          {"index_topk", absent},
                                          {"hc_mult", absent},
                                          {"hc_sinkhorn_iters", absent},
                                          {"hc_eps", absent},
                                          {"rms_norm_eps", absent},
                                          {"rope_theta", absent},
                                          {"compress_rope_theta", absent},
                                          {"scoring_func", absent},
                                          {"n_shared_experts", absent},
                                          {"num_key_value_heads", absent},
                                          {"hidden_act", absent},
                                          {"bos_token_id", absent},
                                          {"eos_token_id", absent},
                                          {"num_nextn_predict_layers", absent},
                                          {"quantization_config.weight_block_size", absent}});
    ASSERT_TRUE(config) << config.error().message;
    ExpectFlashLike(*config);
  }
}

TEST(Config, NumberOfMtpLayersFollowsTheRatiosWhereItIsNotTold) {
  const Result<ModelConfig> config =
      ParseChanged(kCheckpointDialect,
                   {{"num_nextn_predict_layers", ""}, {"compress_ratios", "[0, 0, 4, 128]"}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_mtp_layers, 0);
}

TEST(Config, SwigluLimitOfZeroNullOrNothingMeansNoClamp) {
  for (const char* value : {"0", "0.0", "null", ""}) {
    const auto config = ParseChanged(kCheckpointDialect, {{"swiglu_limit", value}});
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->swiglu_limit, 0.0f);
  }
}

TEST(Config, NoYarnWhereNoneIsTold) {
  for (const char* value : {"null", "{}", ""}) {
    const auto config = ParseChanged(kCheckpointDialect, {{"rope_scaling", value}});
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_FALSE(config->yarn);
  }
  for (const char* value : {"0", ""}) {
    const auto config = ParseChanged(kInferenceDialect, {{"original_seq_len", value}});
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_FALSE(config->yarn);
  }
}

struct FormatCase {
  const char* text;
  std::vector<Change> changes;
  LinearFormat linear;
  LinearFormat expert;
  bool power_of_two;
};

TEST(Config, FormatsFollowBothDialects) {
  constexpr auto kBf16 = LinearFormat::kBf16;
  constexpr auto kFp8 = LinearFormat::kFp8;
  constexpr auto kFp4 = LinearFormat::kFp4;
  const FormatCase cases[] = {
      {kCheckpointDialect, {{"expert_dtype", ""}}, kFp8, kFp8, true},
      {kCheckpointDialect, {{"expert_dtype", "null"}}, kFp8, kFp8, true},
      {kCheckpointDialect, {{"expert_dtype", "\"fp8\""}}, kFp8, kFp8, true},
      {kCheckpointDialect, {{"quantization_config.scale_fmt", ""}}, kFp8, kFp4, false},
      {kCheckpointDialect, {{"quantization_config", "null"}}, kBf16, kBf16, false},
      {kCheckpointDialect, {{"quantization_config", "{}"}}, kBf16, kBf16, false},
      {kCheckpointDialect, {{"quantization_config", ""}}, kBf16, kBf16, false},
      {kCheckpointDialect, {{"dtype", "\"bfloat16\""}}, kFp8, kFp4, true},
      {kInferenceDialect, {{"dtype", ""}, {"scale_fmt", ""}}, kFp8, kFp4, true},
      {kInferenceDialect, {{"scale_fmt", "null"}}, kFp8, kFp4, false},
      {kInferenceDialect,
       {{"expert_dtype", "null"}, {"scale_dtype", "\"fp32\""}},
       kFp8,
       kFp8,
       true},
      {kInferenceDialect, {{"dtype", "\"bf16\""}, {"expert_dtype", ""}}, kBf16, kBf16, true},
  };
  for (const FormatCase& c : cases) {
    const Result<ModelConfig> config = ParseChanged(c.text, c.changes);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->linear_format, c.linear) << c.changes[0].key << c.changes[0].value;
    EXPECT_EQ(config->expert_format, c.expert) << c.changes[0].key << c.changes[0].value;
    EXPECT_EQ(config->power_of_two_scales, c.power_of_two) << c.changes[0].key;
  }
}

TEST(Config, RouterScoresByName) {
  const std::pair<const char*, RouterScore> cases[] = {{"\"sigmoid\"", RouterScore::kSigmoid},
                                                       {"\"softmax\"", RouterScore::kSoftmax}};
  for (const auto& [name, score] : cases) {
    EXPECT_EQ(ParseChanged(kCheckpointDialect, {{"scoring_func", name}})->router_score, score);
    EXPECT_EQ(ParseChanged(kInferenceDialect, {{"score_func", name}})->router_score, score);
  }
}

TEST(Config, BlocksNeedNotBe128) {
  const auto config =
      ParseChanged(kCheckpointDialect, {{"quantization_config.weight_block_size", "[64, 32]"}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->weight_block_rows, 64);
  EXPECT_EQ(config->weight_block_cols, 32);
}

TEST(Config, Bf16ModelsNeedNoWholeBlocks) {
  const auto config = ParseChanged(
      kCheckpointDialect,
      {{"quantization_config", "null"}, {"o_lora_rank", "60"}, {"hidden_size", "200"}});
  EXPECT_TRUE(config) << config.error().message;
}

struct FaultCase {
  std::vector<Change> changes;
  const char* message;
};

void ExpectFaults(const char* text, const std::vector<FaultCase>& faults) {
  for (const FaultCase& fault : faults) {
    EXPECT_EQ(ErrorOf(ParseChanged(text, fault.changes)), fault.message);
  }
}

TEST(Config, EveryDemandedFieldIsNamedWhereItIsMissing) {
  ExpectFaults(
      kCheckpointDialect,
      {{{{"hidden_size", ""}}, "hidden_size (or dim): expected a value, found none"},
       {{{"num_hidden_layers", "null"}},
        "num_hidden_layers (or n_layers): expected a value, found none"},
       {{{"vocab_size", ""}}, "vocab_size: expected a value, found none"},
       {{{"num_attention_heads", ""}},
        "num_attention_heads (or n_heads): expected a value, found none"},
       {{{"head_dim", ""}}, "head_dim: expected a value, found none"},
       {{{"q_lora_rank", ""}}, "q_lora_rank: expected a value, found none"},
       {{{"o_groups", ""}}, "o_groups: expected a value, found none"},
       {{{"o_lora_rank", ""}}, "o_lora_rank: expected a value, found none"},
       {{{"n_routed_experts", ""}}, "n_routed_experts: expected a value, found none"},
       {{{"num_experts_per_tok", ""}},
        "num_experts_per_tok (or n_activated_experts): expected a value, found none"},
       {{{"moe_intermediate_size", ""}},
        "moe_intermediate_size (or moe_inter_dim): expected a value, found none"},
       {{{"compress_ratios", ""}}, "compress_ratios: expected a list, found none"},
       {{{"rope_scaling.factor", ""}},
        "rope_scaling.factor (or rope_factor): expected a value, found none"},
       {{{"rope_scaling.original_max_position_embeddings", ""}},
        "rope_scaling.original_max_position_embeddings (or original_seq_len): expected a value, "
        "found none"},
       {{{"quantization_config.quant_method", ""}},
        "quantization_config.quant_method: expected \"fp8\", found none"}});
}

TEST(Config, WrongTypesAndRangesNameFieldExpectedAndFound) {
  ExpectFaults(
      kCheckpointDialect,
      {{{{"hidden_size", "\"4096\""}},
        "hidden_size: expected an integer from 1 to 1048576, found \"4096\""},
       {{{"hidden_size", "4096.0"}},
        "hidden_size: expected an integer from 1 to 1048576, found 4096.0"},
       {{{"hidden_size", "0"}}, "hidden_size: expected an integer from 1 to 1048576, found 0"},
       {{{"hidden_size", "-4096"}},
        "hidden_size: expected an integer from 1 to 1048576, found -4096"},
       {{{"hidden_size", "99999999999999999999999"}},
        "hidden_size: expected an integer from 1 to 1048576, found 99999999999999999999999"},
       {{{"hidden_size", "true"}},
        "hidden_size: expected an integer from 1 to 1048576, found true"},
       {{{"hidden_size", "[4096]"}},
        "hidden_size: expected an integer from 1 to 1048576, found an array"},
       {{{"num_hidden_layers", "1e1"}},
        "num_hidden_layers: expected an integer from 1 to 1024, found 1e1"},
       {{{"num_hash_layers", "-1"}},
        "num_hash_layers: expected an integer from 0 to 1024, found -1"},
       {{{"vocab_size", "0"}}, "vocab_size: expected an integer from 1 to 16777216, found 0"},
       {{{"max_position_embeddings", "0"}},
        "max_position_embeddings: expected an integer from 1 to 1073741824, found 0"},
       {{{"num_attention_heads", "0"}},
        "num_attention_heads: expected an integer from 1 to 4096, found 0"},
       {{{"sliding_window", "0"}},
        "sliding_window: expected an integer from 1 to 1048576, found 0"},
       {{{"index_topk", "0"}}, "index_topk: expected an integer from 1 to 1048576, found 0"},
       {{{"index_head_dim", "16"}},
        "index_head_dim: expected an integer from 32 to 4096, found 16"},
       {{{"num_experts_per_tok", "0"}},
        "num_experts_per_tok: expected an integer from 1 to 8192, found 0"},
       {{{"n_shared_experts", "2"}}, "n_shared_experts: expected an integer from 1 to 1, found 2"},
       {{{"hc_mult", "0"}}, "hc_mult: expected an integer from 1 to 64, found 0"},
       {{{"hc_sinkhorn_iters", "0"}},
        "hc_sinkhorn_iters: expected an integer from 1 to 1000, found 0"},
       {{{"num_key_value_heads", "8"}},
        "num_key_value_heads: expected an integer from 1 to 1, found 8"},
       {{{"eos_token_id", "[1]"}},
        "eos_token_id: expected an integer from 0 to 16777215, found an array"},
       {{{"num_nextn_predict_layers", "-1"}},
        "num_nextn_predict_layers: expected an integer from 0 to 64, found -1"},
       {{{"routed_scaling_factor", "0"}},
        "routed_scaling_factor: expected a number above 0, found 0"},
       {{{"routed_scaling_factor", "\"1.5\""}},
        "routed_scaling_factor: expected a number above 0, found \"1.5\""},
       {{{"swiglu_limit", "-1"}}, "swiglu_limit: expected a number of at least 0, found -1"},
       {{{"swiglu_limit", "Infinity"}},
        "swiglu_limit: expected a number of at least 0, found Infinity"},
       {{{"swiglu_limit", "NaN"}}, "swiglu_limit: expected a number of at least 0, found NaN"},
       {{{"rms_norm_eps", "1e-60"}}, "rms_norm_eps: expected a number above 0, found 1e-60"},
       {{{"hc_eps", "-1e-6"}}, "hc_eps: expected a number above 0, found -1e-6"},
       {{{"rope_theta", "1"}}, "rope_theta: expected a number above 1, found 1"},
       {{{"compress_rope_theta", "1e39"}},
        "compress_rope_theta: expected a number above 1, found 1e39"},
       {{{"rope_scaling.factor", "0"}}, "rope_scaling.factor: expected a number above 0, found 0"},
       {{{"rope_scaling", "[]"}}, "rope_scaling: expected an object, found an array"},
       {{{"quantization_config", "\"fp8\""}},
        "quantization_config: expected an object, found \"fp8\""}});
}

TEST(Config, UnknownWordsNameFieldExpectedAndFound) {
  ExpectFaults(
      kCheckpointDialect,
      {{{{"scoring_func", "\"tanh\""}},
        "scoring_func: expected \"sqrtsoftplus\", \"sigmoid\" or \"softmax\", found \"tanh\""},
       {{{"rope_scaling.type", "\"linear\""}},
        "rope_scaling.type: expected \"yarn\", found \"linear\""},
       {{{"rope_scaling.rope_type", "7"}}, "rope_scaling.rope_type: expected \"yarn\", found 7"},
       {{{"quantization_config.quant_method", "\"gptq\""}},
        "quantization_config.quant_method: expected \"fp8\", found \"gptq\""},
       {{{"quantization_config.fmt", "\"e5m2\""}},
        "quantization_config.fmt: expected \"e4m3\", found \"e5m2\""},
       {{{"quantization_config.scale_fmt", "\"e5m10\""}},
        "quantization_config.scale_fmt: expected \"ue8m0\", found \"e5m10\""},
       {{{"quantization_config.activation_scheme", "\"static\""}},
        "quantization_config.activation_scheme: expected \"dynamic\", found \"static\""},
       {{{"quantization_config.weight_block_size", "[128]"}},
        "quantization_config.weight_block_size: expected two integers [rows, columns], the columns "
        "a multiple of 32, found an array"},
       {{{"quantization_config.weight_block_size", "[128, 48]"}},
        "quantization_config.weight_block_size: expected two integers [rows, columns], the columns "
        "a multiple of 32, found an array"},
       {{{"expert_dtype", "\"int4\""}},
        "expert_dtype: expected \"fp4\" or \"fp8\", found \"int4\""},
       {{{"expert_dtype", "4"}}, "expert_dtype: expected a string, found 4"},
       {{{"dtype", "\"fp16\""}},
        "dtype: expected \"fp8\", \"bf16\" or \"bfloat16\", found \"fp16\""},
       {{{"dtype", "\"bf16\""}},
        "dtype is \"bf16\", but quantization_config.quant_method is \"fp8\""},
       {{{"scale_dtype", "\"fp16\""}}, "scale_dtype: expected \"fp8\" or \"fp32\", found \"fp16\""},
       {{{"hidden_act", "\"gelu\""}}, "hidden_act: expected \"silu\", found \"gelu\""},
       {{{"tie_word_embeddings", "true"}}, "tie_word_embeddings: expected false, found true"},
       {{{"attention_bias", "1"}}, "attention_bias: expected false, found 1"}});
}

TEST(Config, TwoNamesWithDifferentValuesAreBothNamed) {
  ExpectFaults(kCheckpointDialect,
               {{{{"dim", "2048"}},
                 "dim and hidden_size are the same field, but one is 2048 and the other 4096"},
                {{{"route_scale", "2.5"}},
                 "route_scale and routed_scaling_factor are the same field, but one is 2.5 and the "
                 "other 1.5"},
                {{{"rope_factor", "40"}},
                 "rope_factor and rope_scaling.factor are the same field, but one is 40 and the "
                 "other 16"}});
}

TEST(Config, RatiosAreRefusedByIndexAndLengthByBothNumbers) {
  ExpectFaults(
      kCheckpointDialect,
      {{{{"compress_ratios", "[0, 0, 8, 128, 0]"}},
        "compress_ratios[2]: expected 0, 4 or 128, found 8"},
       {{{"compress_ratios", "[0, 0, 4, \"128\", 0]"}},
        "compress_ratios[3]: expected 0, 4 or 128, found \"128\""},
       {{{"compress_ratios", "[0, 0, 4, 128, 4.0]"}},
        "compress_ratios[4]: expected 0, 4 or 128, found 4.0"},
       {{{"compress_ratios", "4"}}, "compress_ratios: expected a list of 0, 4 and 128, found 4"},
       {{{"compress_ratios", "[0, 0, 4, 128]"}},
        "compress_ratios: expected 5 entries (num_hidden_layers 4 and num_nextn_predict_layers 1), "
        "found 4"},
       {{{"num_hidden_layers", "5"}},
        "compress_ratios: expected 6 entries (num_hidden_layers 5 and num_nextn_predict_layers 1), "
        "found 5"}});
  ExpectFaults(kInferenceDialect,
               {{{{"n_mtp_layers", "0"}},
                 "compress_ratios: expected 4 entries (n_layers 4 and n_mtp_layers 0), found 5"}});
}

TEST(Config, LengthsAndDivisibilitiesNameFieldsAndBothValues) {
  ExpectFaults(
      kCheckpointDialect,
      {{{{"qk_rope_head_dim", "63"}}, "qk_rope_head_dim must be a multiple of 2: 63 and 2"},
       {{{"head_dim", "500"}},
        "head_dim less qk_rope_head_dim must be a positive multiple of 64: 500 and 64"},
       {{{"head_dim", "64"}},
        "head_dim less qk_rope_head_dim must be a positive multiple of 64: 64 and 64"},
       {{{"o_groups", "7"}}, "num_attention_heads must be a multiple of o_groups: 64 and 7"},
       {{{"index_head_dim", "96"}}, "index_head_dim must be a power of two: 96"},
       {{{"index_head_dim", "32"}}, "qk_rope_head_dim must not be above index_head_dim: 64 and 32"},
       {{{"num_experts_per_tok", "257"}},
        "num_experts_per_tok must not be above n_routed_experts: 257 and 256"},
       {{{"eos_token_id", "129280"}}, "eos_token_id must be below vocab_size: 129280 and 129280"},
       {{{"rope_scaling.beta_slow", "33"}},
        "rope_scaling.beta_slow must not be above rope_scaling.beta_fast: 33 and 32"},
       {{{"hidden_size", "4160"}},
        "hidden_size must be a multiple of the weight block's columns: 4160 and 128"},
       {{{"moe_intermediate_size", "2000"}},
        "moe_intermediate_size must be a multiple of the weight block's columns: 2000 and 128"},
       {{{"q_lora_rank", "1000"}},
        "q_lora_rank must be a multiple of the weight block's columns: 1000 and 128"},
       {{{"head_dim", "192"}, {"num_attention_heads", "8"}},
        "num_attention_heads * head_dim / o_groups must be a multiple of the weight block's "
        "columns: 8 * 192 / 8 and 128"},
       {{{"o_lora_rank", "100"}},
        "o_groups * o_lora_rank must be a multiple of the weight block's columns: 8 * 100 and "
        "128"}});
  ExpectFaults(
      kInferenceDialect,
      {{{{"rope_head_dim", "63"}}, "rope_head_dim must be a multiple of 2: 63 and 2"},
       {{{"o_groups", "7"}}, "n_heads must be a multiple of o_groups: 64 and 7"},
       {{{"dim", "4160"}}, "dim must be a multiple of the weight block's columns: 4160 and 128"}});
}

TEST(Config, LargestSizesDoNotOverflowTheCacheLayout) {
  std::string ratios = "[4";
  for (int i = 1; i < 1024; ++i) ratios += ", 4";
  const auto config = ParseChanged(kCheckpointDialect, {{"num_hidden_layers", "1024"},
                                                        {"num_nextn_predict_layers", "0"},
                                                        {"compress_ratios", (ratios + "]").c_str()},
                                                        {"head_dim", "16384"},
                                                        {"index_head_dim", "4096"},
                                                        {"sliding_window", "1048576"}});
  ASSERT_TRUE(config) << config.error().message;
  const KvLayout layout(*config);
  EXPECT_GT(layout.slot_bytes(), int64_t{1} << 40);
  EXPECT_GT(layout.page_bytes(), int64_t{1} << 28);
}

TEST(Config, FileErrorsNameTheFile) {
  const testing::TempFolder folder;
  EXPECT_THAT(ErrorOf(LoadConfig(folder.path())),
              AllOf(HasSubstr("config.json"), HasSubstr("cannot be opened: No such file")));
  folder.Write("config.json", "{\"hidden_size\": }");
  EXPECT_THAT(ErrorOf(LoadConfig(folder.path())), HasSubstr("config.json: "));
  folder.Write("config.json", "[1]");
  EXPECT_THAT(ErrorOf(LoadConfig(folder.path())),
              HasSubstr("config.json: expected an object, found an array"));
  folder.Write("config.json", kCheckpointDialect);
  const Result<ModelConfig> config = LoadConfig(folder.path());
  ASSERT_TRUE(config) << config.error().message;
  ExpectFlashLike(*config);
}

}  // namespace
}  // namespace dsv4::model
