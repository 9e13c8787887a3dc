// The model's configuration, from either of the two JSON dialects:
// `config.json` of a published checkpoint, or the inference configuration of the published code.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace dsv4::model {

enum class LinearFormat : uint8_t { kBf16, kFp8, kFp4 };
enum class RouterScore : uint8_t { kSqrtSoftplus, kSigmoid, kSoftmax };

struct YarnConfig {
  int64_t original_max_positions = 0;
  double factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};

struct ModelConfig {
  // The family, by which its chat format is found; the first one where absent.
  std::string model_type = "deepseek_v4";

  int64_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t num_mtp_layers = 0;
  int32_t num_hash_layers = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;  // max_position_embeddings / max_seq_len; 1048576 where absent

  int32_t num_heads = 0;
  int32_t head_dim = 0;
  int32_t rope_head_dim = 0;
  int32_t q_lora_rank = 0;
  int32_t o_groups = 0;
  int32_t o_lora_rank = 0;
  int32_t window_size = 0;
  std::vector<int32_t> compress_ratios;  // [num_layers + num_mtp_layers]: 0, 4 or 128

  int32_t index_num_heads = 0;
  int32_t index_head_dim = 0;
  int32_t index_topk = 0;

  int32_t num_routed_experts = 0;
  int32_t num_activated_experts = 0;
  int32_t num_shared_experts = 0;
  int64_t moe_inter_dim = 0;
  RouterScore router_score = RouterScore::kSqrtSoftplus;
  float route_scale = 1.0f;
  float swiglu_limit = 0.0f;  // 0: no clamp

  float norm_eps = 1e-6f;
  double rope_theta = 10000.0;
  double compress_rope_theta = 160000.0;
  std::optional<YarnConfig> yarn;

  int32_t hc_mult = 4;
  int32_t hc_sinkhorn_iters = 20;
  float hc_eps = 1e-6f;

  LinearFormat linear_format = LinearFormat::kBf16;
  LinearFormat expert_format = LinearFormat::kBf16;
  // Activations are quantised with power-of-two scales (scale_fmt "ue8m0"), else amax/448.
  bool power_of_two_scales = false;
  int32_t weight_block_rows = 128;
  int32_t weight_block_cols = 128;  // also the block of the activations
  static constexpr int32_t kFp4Block = 32;

  int32_t bos_token_id = 0;
  int32_t eos_token_id = 1;

  int32_t num_blocks() const { return num_layers + num_mtp_layers; }  // main layers, then MTP
  bool is_mtp(int32_t block) const { return block >= num_layers; }
  // MTP blocks never are; of a slice with fewer layers than num_hash_layers all layers are.
  bool is_hash_routed(int32_t block) const { return block < num_hash_layers && !is_mtp(block); }
  int64_t hc_mix_rows() const { return int64_t{2 + hc_mult} * hc_mult; }
};

// Fields absent from the JSON take the published defaults; lengths and divisibilities are checked
// and refused by field name with both values.
Result<ModelConfig> ParseConfig(const json::Value& json);
// Reads `config.json` of a checkpoint folder.
Result<ModelConfig> LoadConfig(const std::filesystem::path& folder);

}  // namespace dsv4::model
