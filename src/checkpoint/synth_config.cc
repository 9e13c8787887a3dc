#include "checkpoint/synth_config.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"

namespace dsv4 {
namespace {

constexpr std::array<std::string_view, 4> kPresets = {"flash", "pro", "tiny-flash", "tiny-pro"};

// A key of config.json and its text by preset, in the order of the file. One text stands for all
// presets; empty: computed (compress_ratios).
struct Row {
  std::string_view key;
  std::array<std::string_view, 4> texts;

  constexpr Row(std::string_view k, std::string_view all) : key(k), texts{all, all, all, all} {}
  constexpr Row(std::string_view k, std::array<std::string_view, 4> t) : key(k), texts(t) {}
};

using Four = std::array<std::string_view, 4>;

constexpr Row kRows[] = {
    {"architectures", R"(["DeepseekV4ForCausalLM"])"},
    {"attention_bias", "false"},
    {"attention_dropout", "0.0"},
    {"bos_token_id", "0"},
    {"eos_token_id", "1"},
    {"expert_dtype", R"("fp4")"},
    {"hc_eps", "1e-06"},
    {"hc_mult", "4"},
    {"hc_sinkhorn_iters", "20"},
    {"head_dim", Four{"512", "512", "128", "192"}},
    {"hidden_act", R"("silu")"},
    {"hidden_size", Four{"4096", "7168", "256", "256"}},
    {"index_head_dim", "128"},
    {"index_n_heads", Four{"64", "64", "4", "4"}},
    {"index_topk", Four{"512", "1024", "16", "24"}},
    {"initializer_range", "0.02"},
    {"max_position_embeddings", "1048576"},
    {"model_type", R"("deepseek_v4")"},
    {"moe_intermediate_size", Four{"2048", "3072", "128", "256"}},
    {"n_routed_experts", Four{"256", "384", "8", "12"}},
    {"n_shared_experts", "1"},
    {"norm_topk_prob", "true"},
    {"num_attention_heads", Four{"64", "128", "4", "8"}},
    {"num_experts_per_tok", Four{"6", "6", "2", "3"}},
    {"num_hidden_layers", Four{"43", "61", "5", "4"}},
    {"num_hash_layers", Four{"3", "3", "2", "1"}},
    {"num_key_value_heads", "1"},
    {"num_nextn_predict_layers", "1"},
    {"o_groups", Four{"8", "16", "2", "4"}},
    {"o_lora_rank", Four{"1024", "1024", "128", "128"}},
    {"q_lora_rank", Four{"1024", "1536", "128", "256"}},
    {"qk_rope_head_dim", "64"},
    {"quantization_config",
     R"({"activation_scheme":"dynamic","fmt":"e4m3","quant_method":"fp8","scale_fmt":"ue8m0",)"
     R"("weight_block_size":[128,128]})"},
    {"rms_norm_eps", "1e-06"},
    {"rope_scaling",
     R"({"beta_fast":32,"beta_slow":1,"factor":16,"original_max_position_embeddings":65536,)"
     R"("type":"yarn"})"},
    {"rope_theta", "10000"},
    {"routed_scaling_factor", Four{"1.5", "2.5", "1.5", "2.5"}},
    {"scoring_func", R"("sqrtsoftplus")"},
    {"sliding_window", "128"},
    {"swiglu_limit", "10.0"},
    {"tie_word_embeddings", "false"},
    {"topk_method", R"("noaux_tc")"},
    {"torch_dtype", R"("bfloat16")"},
    {"transformers_version", R"("4.57.1")"},
    {"use_cache", "true"},
    {"vocab_size", "129280"},
    {"compress_rope_theta", "160000"},
    {"compress_ratios", ""},
};

struct Entry {
  std::string_view key;
  std::string text;
  json::Value value;

  void SetText(std::string_view new_text) {
    if (auto parsed = json::Parse(new_text)) {
      text = new_text;
      value = std::move(*parsed);
    } else {
      text = json::Quote(new_text);
      value = json::Value::String(std::string(new_text));
    }
  }
};

class Entries {
 public:
  static Result<Entries> FromPreset(std::string_view preset) {
    const auto* const found = std::find(kPresets.begin(), kPresets.end(), preset);
    if (found == kPresets.end()) {
      return UsageError("--preset: expected {}, found {}", fmt::join(kPresets, ", "), preset);
    }
    Entries entries;
    entries.preset_ = static_cast<size_t>(found - kPresets.begin());
    for (const Row& row : kRows) {
      Entry& entry = entries.entries_.emplace_back();
      entry.key = row.key;
      const std::string_view text = row.texts[entries.preset_];
      if (!text.empty()) entry.SetText(text);
    }
    return entries;
  }

  Status Set(const std::string& key, const std::string& text) {
    for (Entry& entry : entries_) {
      if (entry.key != key) continue;
      entry.SetText(text);
      return {};
    }
    return UsageError("--set {}={}: config.json has no key {}", key, text, key);
  }

  // Where no setting gave them: the preset's pattern for as many layers as there are.
  void FillRatios(int64_t num_layers, int64_t num_mtp_layers) {
    Entry& entry = entries_.back();
    if (!entry.text.empty()) return;
    const bool pro = preset_ == 1 || preset_ == 3;
    std::vector<int> ratios;
    for (int64_t i = 0; i < num_layers; ++i) {
      ratios.push_back(i < 2 ? (pro ? 128 : 0) : i % 2 == 0 ? 4 : 128);
    }
    ratios.insert(ratios.end(), static_cast<size_t>(num_mtp_layers), 0);
    entry.SetText(fmt::format("[{}]", fmt::join(ratios, ",")));
  }

  const Entry& at(std::string_view key) const {
    return *std::find_if(entries_.begin(), entries_.end(),
                         [key](const Entry& entry) { return entry.key == key; });
  }

  Result<int64_t> Integer(std::string_view key, int64_t least, int64_t most) const {
    const Entry& entry = at(key);
    const std::optional<int64_t> value = entry.value.to_int64();
    if (!value || *value < least || *value > most) {
      return UsageError("{}: expected an integer from {} to {}, found {}", key, least, most,
                        entry.text);
    }
    return *value;
  }

  std::string FileText() const {
    std::string text = "{\n";
    for (const Entry& entry : entries_) {
      text += fmt::format("  \"{}\": {}{}\n", entry.key, entry.text,
                          &entry == &entries_.back() ? "" : ",");
    }
    return text + "}\n";
  }

 private:
  size_t preset_ = 0;
  std::vector<Entry> entries_;
};

// Far above any model, and small enough that no size below overflows before it is checked.
constexpr int64_t kMostWidth = int64_t{1} << 24;
constexpr int64_t kMostLayers = 4096;

Status ReadIntegers(const Entries& entries, SynthConfig* config) {
  struct Field {
    std::string_view key;
    int64_t* value;
    int64_t least;
    int64_t most;
  };
  const Field fields[] = {
      {"hidden_size", &config->hidden_size, 1, kMostWidth},
      {"hc_mult", &config->hc_mult, 1, 64},
      {"num_attention_heads", &config->num_attention_heads, 1, kMostWidth},
      {"head_dim", &config->head_dim, 1, kMostWidth},
      {"q_lora_rank", &config->q_lora_rank, 1, kMostWidth},
      {"o_groups", &config->o_groups, 1, kMostWidth},
      {"o_lora_rank", &config->o_lora_rank, 1, kMostWidth},
      {"index_n_heads", &config->index_n_heads, 1, kMostWidth},
      {"index_head_dim", &config->index_head_dim, 1, kMostWidth},
      {"n_routed_experts", &config->n_routed_experts, 1, 65536},
      {"num_experts_per_tok", &config->num_experts_per_tok, 1, 65536},
      {"moe_intermediate_size", &config->moe_intermediate_size, 1, kMostWidth},
      {"vocab_size", &config->vocab_size, 1, kMostWidth},
      {"num_hidden_layers", &config->num_hidden_layers, 0, kMostLayers},
      {"num_hash_layers", &config->num_hash_layers, 0, kMostLayers},
      {"num_nextn_predict_layers", &config->num_nextn_predict_layers, 0, kMostLayers},
  };
  for (const Field& field : fields) {
    DSV4_ASSIGN(*field.value, entries.Integer(field.key, field.least, field.most));
  }
  return {};
}

Status ReadRatios(const Entries& entries, SynthConfig* config) {
  const Entry& entry = entries.at("compress_ratios");
  if (!entry.value.is_array()) {
    return UsageError("compress_ratios: expected a list, found {}", entry.text);
  }
  const auto expected =
      static_cast<size_t>(config->num_hidden_layers + config->num_nextn_predict_layers);
  if (entry.value.items().size() != expected) {
    return UsageError(
        "compress_ratios: expected {} entries (num_hidden_layers + num_nextn_predict_layers), "
        "found {}",
        expected, entry.value.items().size());
  }
  for (const json::Value& item : entry.value.items()) {
    const std::optional<int64_t> ratio = item.to_int64();
    if (ratio != 0 && ratio != 4 && ratio != 128) {
      return UsageError("compress_ratios: expected entries of 0, 4 and 128, found {}", entry.text);
    }
    config->compress_ratios.push_back(*ratio);
  }
  return {};
}

Status CheckDivisibility(const SynthConfig& config) {
  const int64_t width = config.num_attention_heads * config.head_dim;
  if (width % config.o_groups != 0) {
    return UsageError("o_groups: {} does not divide num_attention_heads * head_dim = {}",
                      config.o_groups, width);
  }
  if (config.num_experts_per_tok > config.n_routed_experts) {
    return UsageError("num_experts_per_tok: {} is above n_routed_experts {}",
                      config.num_experts_per_tok, config.n_routed_experts);
  }
  if (!config.quantized || !config.fp4_experts) return {};
  for (const auto& [key, value] :
       {std::pair{"hidden_size", config.hidden_size},
        std::pair{"moe_intermediate_size", config.moe_intermediate_size}}) {
    if (value % 32 != 0) {
      return UsageError("{}: expected a multiple of 32 for FP4 experts, found {}", key, value);
    }
  }
  return {};
}

}  // namespace

Result<SynthConfig> MakeSynthConfig(std::string_view preset,
                                    std::span<const SynthSetting> settings) {
  DSV4_ASSIGN(Entries entries, Entries::FromPreset(preset));
  for (const auto& [key, text] : settings) DSV4_TRY(entries.Set(key, text));
  SynthConfig config;
  DSV4_TRY(ReadIntegers(entries, &config));
  entries.FillRatios(config.num_hidden_layers, config.num_nextn_predict_layers);
  DSV4_TRY(ReadRatios(entries, &config));
  const json::Value& quantization = entries.at("quantization_config").value;
  config.quantized =
      !quantization.is_null() && !(quantization.is_object() && quantization.members().empty());
  const json::Value& expert_dtype = entries.at("expert_dtype").value;
  config.fp4_experts = expert_dtype.is_string() && expert_dtype.as_string() == "fp4";
  DSV4_TRY(CheckDivisibility(config));
  config.json = entries.FileText();
  return config;
}

}  // namespace dsv4
