// config.json of a synthetic checkpoint, as text and as the numbers that shape its tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dsv4 {

// key=value of the command line.
using SynthSetting = std::pair<std::string, std::string>;

struct SynthConfig {
  int64_t hidden_size = 0;
  int64_t hc_mult = 0;
  int64_t num_attention_heads = 0;
  int64_t head_dim = 0;
  int64_t q_lora_rank = 0;
  int64_t o_groups = 0;
  int64_t o_lora_rank = 0;
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t n_routed_experts = 0;
  int64_t num_experts_per_tok = 0;
  int64_t moe_intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_hash_layers = 0;
  int64_t num_nextn_predict_layers = 0;
  std::vector<int64_t> compress_ratios;  // main layers, then MTP layers
  bool quantized = true;                 // a quantization_config that is neither null nor empty
  bool fp4_experts = true;

  std::string json;  // the file's text
};

// See SynthModel::Make.
Result<SynthConfig> MakeSynthConfig(std::string_view preset,
                                    std::span<const SynthSetting> settings);

}  // namespace dsv4
