#include "model/config.h"

#include <bit>
#include <utility>
#include <variant>

#include "base/read_file.h"
#include "model/config_reader.h"
#include "tensor/kv_row.h"

namespace dsv4::model {
namespace {

constexpr FieldName kModelType{"model_type", "model_type"};
constexpr FieldName kHidden{"dim", "hidden_size"};
constexpr FieldName kLayers{"n_layers", "num_hidden_layers"};
constexpr FieldName kMtpLayers{"n_mtp_layers", "num_nextn_predict_layers"};
constexpr FieldName kHashLayers{"n_hash_layers", "num_hash_layers"};
constexpr FieldName kVocab{"vocab_size", "vocab_size"};
constexpr FieldName kMaxPositions{"max_seq_len", "max_position_embeddings"};
constexpr FieldName kHeads{"n_heads", "num_attention_heads"};
constexpr FieldName kHeadDim{"head_dim", "head_dim"};
constexpr FieldName kRopeHeadDim{"rope_head_dim", "qk_rope_head_dim"};
constexpr FieldName kQLoraRank{"q_lora_rank", "q_lora_rank"};
constexpr FieldName kOGroups{"o_groups", "o_groups"};
constexpr FieldName kOLoraRank{"o_lora_rank", "o_lora_rank"};
constexpr FieldName kWindow{"window_size", "sliding_window"};
constexpr FieldName kRatios{"compress_ratios", "compress_ratios"};
constexpr FieldName kIndexHeads{"index_n_heads", "index_n_heads"};
constexpr FieldName kIndexHeadDim{"index_head_dim", "index_head_dim"};
constexpr FieldName kIndexTopk{"index_topk", "index_topk"};
constexpr FieldName kExperts{"n_routed_experts", "n_routed_experts"};
constexpr FieldName kActivated{"n_activated_experts", "num_experts_per_tok"};
constexpr FieldName kShared{"n_shared_experts", "n_shared_experts"};
constexpr FieldName kMoeInter{"moe_inter_dim", "moe_intermediate_size"};
constexpr FieldName kScore{"score_func", "scoring_func"};
constexpr FieldName kRouteScale{"route_scale", "routed_scaling_factor"};
constexpr FieldName kSwigluLimit{"swiglu_limit", "swiglu_limit"};
constexpr FieldName kNormEps{"norm_eps", "rms_norm_eps"};
constexpr FieldName kRopeTheta{"rope_theta", "rope_theta"};
constexpr FieldName kCompressRopeTheta{"compress_rope_theta", "compress_rope_theta"};
constexpr FieldName kRopeScaling{"", "rope_scaling"};
constexpr FieldName kRopeType{"", "rope_scaling.type"};
constexpr FieldName kYarnOriginal{"original_seq_len",
                                  "rope_scaling.original_max_position_embeddings"};
constexpr FieldName kYarnFactor{"rope_factor", "rope_scaling.factor"};
constexpr FieldName kYarnBetaFast{"beta_fast", "rope_scaling.beta_fast"};
constexpr FieldName kYarnBetaSlow{"beta_slow", "rope_scaling.beta_slow"};
constexpr FieldName kHcMult{"hc_mult", "hc_mult"};
constexpr FieldName kHcIters{"hc_sinkhorn_iters", "hc_sinkhorn_iters"};
constexpr FieldName kHcEps{"hc_eps", "hc_eps"};
constexpr FieldName kBos{"bos_token_id", "bos_token_id"};
constexpr FieldName kEos{"eos_token_id", "eos_token_id"};
constexpr FieldName kDtype{"dtype", "dtype"};
constexpr FieldName kExpertDtype{"expert_dtype", "expert_dtype"};
constexpr FieldName kScaleFmt{"scale_fmt", "quantization_config.scale_fmt"};
constexpr FieldName kScaleDtype{"scale_dtype", "scale_dtype"};
constexpr FieldName kQuantization{"", "quantization_config"};
constexpr FieldName kQuantMethod{"", "quantization_config.quant_method"};
constexpr FieldName kQuantFmt{"", "quantization_config.fmt"};
constexpr FieldName kQuantScheme{"", "quantization_config.activation_scheme"};
constexpr FieldName kWeightBlock{"", "quantization_config.weight_block_size"};
constexpr FieldName kHiddenAct{"hidden_act", "hidden_act"};
constexpr FieldName kKvHeads{"num_key_value_heads", "num_key_value_heads"};

struct IntField {
  FieldName name;
  std::variant<int32_t ModelConfig::*, int64_t ModelConfig::*> member;
  int64_t min;
  int64_t max;  // keeps every product of two fields inside int32, of all shapes inside int64
  std::optional<int64_t> absent;
};

// What has a value in `absent` is the same in every published model; sizes are demanded.
constexpr IntField kIntFields[] = {
    {kHidden, &ModelConfig::hidden_size, 1, 1 << 20, {}},
    {kLayers, &ModelConfig::num_layers, 1, 1024, {}},
    {kHashLayers, &ModelConfig::num_hash_layers, 0, 1024, 0},
    {kVocab, &ModelConfig::vocab_size, 1, 1 << 24, {}},
    {kMaxPositions, &ModelConfig::max_positions, 1, 1 << 30, 1048576},
    {kHeads, &ModelConfig::num_heads, 1, 4096, {}},
    {kHeadDim, &ModelConfig::head_dim, 1, 16384, {}},
    {kRopeHeadDim, &ModelConfig::rope_head_dim, 2, 16384, 64},
    {kQLoraRank, &ModelConfig::q_lora_rank, 1, 1 << 20, {}},
    {kOGroups, &ModelConfig::o_groups, 1, 4096, {}},
    {kOLoraRank, &ModelConfig::o_lora_rank, 1, 1 << 16, {}},
    {kWindow, &ModelConfig::window_size, 1, 1 << 20, 128},
    {kIndexHeads, &ModelConfig::index_num_heads, 1, 4096, 64},
    {kIndexHeadDim, &ModelConfig::index_head_dim, 32, 4096, 128},
    {kIndexTopk, &ModelConfig::index_topk, 1, 1 << 20, 512},
    {kExperts, &ModelConfig::num_routed_experts, 1, 8192, {}},
    {kActivated, &ModelConfig::num_activated_experts, 1, 8192, {}},
    {kShared, &ModelConfig::num_shared_experts, 1, 1, 1},
    {kMoeInter, &ModelConfig::moe_inter_dim, 1, 1 << 20, {}},
    {kHcMult, &ModelConfig::hc_mult, 1, 64, 4},
    {kHcIters, &ModelConfig::hc_sinkhorn_iters, 1, 1000, 20},
    {kBos, &ModelConfig::bos_token_id, 0, (1 << 24) - 1, 0},
    {kEos, &ModelConfig::eos_token_id, 0, (1 << 24) - 1, 1},
};

class ConfigParser {
 public:
  explicit ConfigParser(const json::Value& json) : json_(json), fields_(json) {}

  Result<ModelConfig> Parse() {
    DSV4_TRY(ReadModelType());
    DSV4_TRY(ReadIntegers());
    DSV4_TRY(ReadRatios());
    DSV4_TRY(ReadNumbers());
    DSV4_TRY(ReadYarn());
    DSV4_TRY(ReadFormats());
    DSV4_TRY(RefuseVariants());
    DSV4_TRY(CheckShapes());
    DSV4_TRY(CheckBlocks());
    return config_;
  }

 private:
  Status ReadModelType();
  Status ReadIntegers();
  Status ReadRatios();
  Status ReadNumbers();
  Status ReadYarn();
  Status ReadFormats();
  Status ReadQuantization();
  Status ReadScaleFormat();
  Status ReadExpertFormat();
  Status RefuseVariants();
  Status CheckShapes();
  Status CheckBlocks();

  // Only the value `only` may stand there, if any.
  Status OnlyText(const FieldName& name, std::string_view only);
  Status OnlyFalse(std::string_view name);
  Status MultipleOf(const FieldName& name, int64_t value, std::string_view what, int64_t divisor);
  Status NotAbove(const FieldName& name, int64_t value, const FieldName& limit_name, int64_t limit);
  // Published inference configurations name the hidden size "dim".
  bool inference_dialect() const { return json_.Find("dim") != nullptr; }

  const json::Value& json_;
  FieldReader fields_;
  ModelConfig config_;
};

// Any word: what it means is not for the model to say.
Status ConfigParser::ReadModelType() {
  DSV4_ASSIGN(std::optional<std::string> type, fields_.Text(kModelType));
  if (type) config_.model_type = std::move(*type);
  return {};
}

Status ConfigParser::ReadIntegers() {
  for (const IntField& field : kIntFields) {
    DSV4_ASSIGN(const int64_t value, fields_.Int(field.name, field.min, field.max, field.absent));
    std::visit(
        [&](auto member) {
          auto& target = config_.*member;
          target = static_cast<std::remove_reference_t<decltype(target)>>(value);
        },
        field.member);
  }
  return {};
}

Status ConfigParser::ReadRatios() {
  DSV4_ASSIGN(const json::Value* const list, fields_.Find(kRatios));
  if (list == nullptr) return BadInput("compress_ratios: expected a list, found none");
  if (!list->is_array()) return fields_.Wrong(kRatios, "a list of 0, 4 and 128", *list);
  const int64_t length = static_cast<int64_t>(list->items().size());
  // Where the number of MTP layers is not told the list tells it, else the published one layer.
  DSV4_ASSIGN(const int64_t mtp,
              fields_.Int(kMtpLayers, 0, 64, length == config_.num_layers ? 0 : 1));
  config_.num_mtp_layers = static_cast<int32_t>(mtp);
  if (length != config_.num_blocks()) {
    return BadInput("compress_ratios: expected {} entries ({} {} and {} {}), found {}",
                    config_.num_blocks(), fields_.Spelling(kLayers), config_.num_layers,
                    fields_.Spelling(kMtpLayers), mtp, length);
  }
  for (const json::Value& item : list->items()) {
    const std::optional<int64_t> ratio = item.to_int64();
    if (!ratio || (*ratio != 0 && *ratio != 4 && *ratio != 128)) {
      return BadInput("compress_ratios[{}]: expected 0, 4 or 128, found {}",
                      config_.compress_ratios.size(), Describe(item));
    }
    config_.compress_ratios.push_back(static_cast<int32_t>(*ratio));
  }
  return {};
}

Status ConfigParser::ReadNumbers() {
  DSV4_ASSIGN(const double route_scale, fields_.Number(kRouteScale, 0.0, true, 1.0));
  config_.route_scale = static_cast<float>(route_scale);
  DSV4_ASSIGN(const double swiglu_limit, fields_.Number(kSwigluLimit, 0.0, false, 0.0));
  config_.swiglu_limit = static_cast<float>(swiglu_limit);
  DSV4_ASSIGN(const double norm_eps, fields_.Number(kNormEps, 0.0, true, 1e-6));
  config_.norm_eps = static_cast<float>(norm_eps);
  DSV4_ASSIGN(const double hc_eps, fields_.Number(kHcEps, 0.0, true, 1e-6));
  config_.hc_eps = static_cast<float>(hc_eps);
  DSV4_ASSIGN(config_.rope_theta, fields_.Number(kRopeTheta, 1.0, true, 10000.0));
  DSV4_ASSIGN(config_.compress_rope_theta, fields_.Number(kCompressRopeTheta, 1.0, true, 160000.0));

  DSV4_ASSIGN(const json::Value* const score, fields_.Find(kScore));
  if (score == nullptr) return {};
  const std::string_view name = score->is_string() ? score->as_string() : std::string_view{};
  if (name == "sqrtsoftplus") {
    config_.router_score = RouterScore::kSqrtSoftplus;
  } else if (name == "sigmoid") {
    config_.router_score = RouterScore::kSigmoid;
  } else if (name == "softmax") {
    config_.router_score = RouterScore::kSoftmax;
  } else {
    return fields_.Wrong(kScore, R"("sqrtsoftplus", "sigmoid" or "softmax")", *score);
  }
  return {};
}

Status ConfigParser::ReadYarn() {
  DSV4_ASSIGN(const json::Value* const scaling, fields_.Find(kRopeScaling));
  if (scaling != nullptr && !scaling->is_object()) {
    return fields_.Wrong(kRopeScaling, "an object", *scaling);
  }
  DSV4_TRY(OnlyText(kRopeType, "yarn"));
  DSV4_TRY(OnlyText({"", "rope_scaling.rope_type"}, "yarn"));
  const bool demanded = scaling != nullptr && !scaling->members().empty();
  // The published inference code takes an original length of 0 for "no YaRN".
  DSV4_ASSIGN(const int64_t original, fields_.Int(kYarnOriginal, demanded ? 1 : 0, 1 << 30,
                                                  demanded ? std::optional<int64_t>{} : 0));
  if (original == 0) return {};
  YarnConfig yarn;
  yarn.original_max_positions = original;
  DSV4_ASSIGN(yarn.factor, fields_.Number(kYarnFactor, 0.0, true, std::nullopt));
  DSV4_ASSIGN(yarn.beta_fast, fields_.Number(kYarnBetaFast, 0.0, true, yarn.beta_fast));
  DSV4_ASSIGN(yarn.beta_slow, fields_.Number(kYarnBetaSlow, 0.0, true, yarn.beta_slow));
  if (yarn.beta_slow > yarn.beta_fast) {
    return BadInput("{} must not be above {}: {} and {}", fields_.Spelling(kYarnBetaSlow),
                    fields_.Spelling(kYarnBetaFast), yarn.beta_slow, yarn.beta_fast);
  }
  config_.yarn = yarn;
  return {};
}

Status ConfigParser::ReadFormats() {
  DSV4_TRY(ReadQuantization());
  DSV4_TRY(ReadScaleFormat());
  return ReadExpertFormat();
}

Status ConfigParser::ReadQuantization() {
  DSV4_ASSIGN(const json::Value* const quantization, fields_.Find(kQuantization));
  if (quantization != nullptr && !quantization->is_object()) {
    return fields_.Wrong(kQuantization, "an object", *quantization);
  }
  const bool quantized = quantization != nullptr && !quantization->members().empty();
  if (quantized) {
    DSV4_ASSIGN(const std::optional<std::string> method, fields_.Text(kQuantMethod));
    if (!method) return BadInput("quantization_config.quant_method: expected \"fp8\", found none");
    DSV4_TRY(OnlyText(kQuantMethod, "fp8"));
    DSV4_TRY(OnlyText(kQuantFmt, "e4m3"));
    DSV4_TRY(OnlyText(kQuantScheme, "dynamic"));
    config_.linear_format = LinearFormat::kFp8;
  }
  DSV4_ASSIGN(const std::optional<std::string> dtype, fields_.Text(kDtype));
  if (dtype == "fp8" || (inference_dialect() && !dtype)) {
    config_.linear_format = LinearFormat::kFp8;  // also the published code's default
  } else if (dtype == "bf16") {
    if (quantized) {
      return BadInput(R"(dtype is "bf16", but quantization_config.quant_method is "fp8")");
    }
  } else if (dtype && dtype != "bfloat16") {
    // "bfloat16" is the transformers library's word for the type of what is not quantised.
    return BadInput(R"(dtype: expected "fp8", "bf16" or "bfloat16", found {})",
                    json::Quote(*dtype));
  }
  DSV4_ASSIGN(const json::Value* const block, fields_.Find(kWeightBlock));
  if (block == nullptr) return {};
  const auto side = [&](size_t i) { return block->items()[i].to_int64().value_or(0); };
  const bool two = block->is_array() && block->items().size() == 2;
  if (!two || side(0) < 1 || side(0) > 65536 || side(1) < 32 || side(1) > 65536 ||
      side(1) % ModelConfig::kFp4Block != 0) {
    return fields_.Wrong(kWeightBlock, "two integers [rows, columns], the columns a multiple of 32",
                         *block);
  }
  config_.weight_block_rows = static_cast<int32_t>(side(0));
  config_.weight_block_cols = static_cast<int32_t>(side(1));
  return {};
}

Status ConfigParser::ReadScaleFormat() {
  DSV4_TRY(OnlyText(kScaleFmt, "ue8m0"));
  DSV4_ASSIGN(const std::optional<std::string> format, fields_.Text(kScaleFmt));
  // The published inference code has "ue8m0" where the key is missing and none where it is null.
  const bool published_default = inference_dialect() && json_.Find("scale_fmt") == nullptr &&
                                 json_.Find("quantization_config") == nullptr;
  config_.power_of_two_scales = format.has_value() || published_default;
  // The scales' type is read from the file; the name must be one of the published two.
  DSV4_ASSIGN(const std::optional<std::string> dtype, fields_.Text(kScaleDtype));
  if (dtype && *dtype != "fp8" && *dtype != "fp32") {
    return BadInput(R"(scale_dtype: expected "fp8" or "fp32", found {})", json::Quote(*dtype));
  }
  return {};
}

Status ConfigParser::ReadExpertFormat() {
  DSV4_ASSIGN(const std::optional<std::string> dtype, fields_.Text(kExpertDtype));
  config_.expert_format = config_.linear_format;
  if (!dtype) return {};
  if (*dtype != "fp4" && *dtype != "fp8") {
    return BadInput(R"(expert_dtype: expected "fp4" or "fp8", found {})", json::Quote(*dtype));
  }
  // Without quantization_config nothing is quantised, whatever a checkpoint says of its experts.
  if (config_.linear_format == LinearFormat::kBf16 && !inference_dialect()) return {};
  config_.expert_format = *dtype == "fp4" ? LinearFormat::kFp4 : LinearFormat::kFp8;
  return {};
}

Status ConfigParser::OnlyText(const FieldName& name, std::string_view only) {
  DSV4_ASSIGN(const json::Value* const value, fields_.Find(name));
  if (value == nullptr || (value->is_string() && value->as_string() == only)) return {};
  return fields_.Wrong(name, json::Quote(only), *value);
}

Status ConfigParser::OnlyFalse(std::string_view name) {
  const FieldName field{name, name};
  DSV4_ASSIGN(const json::Value* const value, fields_.Find(field));
  if (value == nullptr || (value->is_bool() && !value->as_bool())) return {};
  return fields_.Wrong(field, "false", *value);
}

// What no published model has, and this engine does not compute.
Status ConfigParser::RefuseVariants() {
  DSV4_TRY(OnlyText(kHiddenAct, "silu"));
  DSV4_TRY(OnlyFalse("tie_word_embeddings"));
  DSV4_TRY(OnlyFalse("attention_bias"));
  DSV4_TRY(fields_.Int(kKvHeads, 1, 1, 1));
  return {};
}

Status ConfigParser::MultipleOf(const FieldName& name, int64_t value, std::string_view what,
                                int64_t divisor) {
  if (value % divisor == 0) return {};
  return BadInput("{} must be a multiple of {}: {} and {}", fields_.Spelling(name), what, value,
                  divisor);
}

Status ConfigParser::NotAbove(const FieldName& name, int64_t value, const FieldName& limit_name,
                              int64_t limit) {
  if (value <= limit) return {};
  return BadInput("{} must not be above {}: {} and {}", fields_.Spelling(name),
                  fields_.Spelling(limit_name), value, limit);
}

Status ConfigParser::CheckShapes() {
  const ModelConfig& c = config_;
  DSV4_TRY(MultipleOf(kRopeHeadDim, c.rope_head_dim, "2", 2));
  const int32_t codes = c.head_dim - c.rope_head_dim;
  if (codes <= 0 || codes % KvRowLayout::kBlock != 0) {
    return BadInput("{} less {} must be a positive multiple of {}: {} and {}",
                    fields_.Spelling(kHeadDim), fields_.Spelling(kRopeHeadDim), KvRowLayout::kBlock,
                    c.head_dim, c.rope_head_dim);
  }
  DSV4_TRY(MultipleOf(kHeads, c.num_heads, fields_.Spelling(kOGroups), c.o_groups));
  if (!std::has_single_bit(static_cast<uint32_t>(c.index_head_dim))) {
    return BadInput("{} must be a power of two: {}", fields_.Spelling(kIndexHeadDim),
                    c.index_head_dim);
  }
  DSV4_TRY(NotAbove(kRopeHeadDim, c.rope_head_dim, kIndexHeadDim, c.index_head_dim));
  DSV4_TRY(NotAbove(kActivated, c.num_activated_experts, kExperts, c.num_routed_experts));
  for (const auto& [name, id] : {std::pair{kBos, c.bos_token_id}, {kEos, c.eos_token_id}}) {
    if (id >= c.vocab_size) {
      return BadInput("{} must be below {}: {} and {}", fields_.Spelling(name),
                      fields_.Spelling(kVocab), id, c.vocab_size);
    }
  }
  return {};
}

// Quantised products take their inputs in whole blocks.
Status ConfigParser::CheckBlocks() {
  const ModelConfig& c = config_;
  if (c.linear_format == LinearFormat::kBf16 && c.expert_format == LinearFormat::kBf16) return {};
  const std::string what = "the weight block's columns";
  DSV4_TRY(MultipleOf(kHidden, c.hidden_size, what, c.weight_block_cols));
  DSV4_TRY(MultipleOf(kMoeInter, c.moe_inter_dim, what, c.weight_block_cols));
  if (c.linear_format == LinearFormat::kBf16) return {};
  DSV4_TRY(MultipleOf(kQLoraRank, c.q_lora_rank, what, c.weight_block_cols));
  const int64_t group_width = int64_t{c.num_heads} * c.head_dim / c.o_groups;
  if (group_width % c.weight_block_cols != 0) {
    return BadInput("{} * {} / {} must be a multiple of {}: {} * {} / {} and {}",
                    fields_.Spelling(kHeads), fields_.Spelling(kHeadDim),
                    fields_.Spelling(kOGroups), what, c.num_heads, c.head_dim, c.o_groups,
                    c.weight_block_cols);
  }
  const int64_t low_width = int64_t{c.o_groups} * c.o_lora_rank;
  if (low_width % c.weight_block_cols != 0) {
    return BadInput("{} * {} must be a multiple of {}: {} * {} and {}", fields_.Spelling(kOGroups),
                    fields_.Spelling(kOLoraRank), what, c.o_groups, c.o_lora_rank,
                    c.weight_block_cols);
  }
  return {};
}

}  // namespace

Result<ModelConfig> ParseConfig(const json::Value& json) {
  if (!json.is_object()) {
    return BadInput("expected an object, found {}", json::KindName(json.kind()));
  }
  return ConfigParser(json).Parse();
}

Result<ModelConfig> LoadConfig(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  DSV4_ASSIGN(const std::string text, ReadFile(path));
  const Result<json::Value> json = json::Parse(text);
  if (!json) return Within(path.string(), json.error());
  Result<ModelConfig> config = ParseConfig(*json);
  if (!config) return Within(path.string(), config.error());
  return config;
}

}  // namespace dsv4::model
