// Every weight of a model as views into the mapped checkpoint, or, where a conversion for several
// ranks has divided it, into the memory in which the checkpoint has joined it.
// Linears stay in the layout of the file. Small vectors are copied into aligned memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "numeric/bf16.h"
#include "ops/ops.h"
#include "tensor/view.h"

namespace dsv4 {
class Checkpoint;
}

namespace dsv4::model {

struct HyperWeights {
  WeightView fn;  // F32 [(2 + hc) * hc or hc, hc * hidden]
  std::span<const float> base;
  std::span<const float> scale;  // [3], or [1] for the head
};

struct CompressorWeights {
  int32_t ratio = 0;
  int32_t width = 0;           // of an entry
  WeightView wkv;              // [w, hidden], w = 2 * width with overlap, else width
  WeightView wgate;            // [w, hidden]
  std::span<const float> ape;  // [ratio, w]
  std::span<const Bf16> norm;  // [width]

  bool overlap() const { return ratio == 4; }
  int32_t row_width() const { return overlap() ? 2 * width : width; }
};

struct IndexerWeights {
  WeightView wq_b;          // [index_num_heads * index_head_dim, q_lora_rank]
  WeightView weights_proj;  // [index_num_heads, hidden]
  CompressorWeights compressor;
};

struct AttentionWeights {
  int32_t ratio = 0;  // 0, 4 or 128
  WeightView wq_a, wq_b, wkv, wo_a, wo_b;
  std::span<const Bf16> q_norm, kv_norm;
  std::span<const float> attn_sink;  // [num_heads]
  CompressorWeights compressor;      // where ratio > 0
  IndexerWeights indexer;            // where ratio == 4
};

using ExpertWeights = ExpertView;  // w1 gate, w2 down, w3 up

struct MoeWeights {
  WeightView gate;                     // [num_routed_experts, hidden]
  std::span<const float> bias;         // [num_routed_experts]; empty in hash layers
  std::span<const int64_t> tid2eid;    // [vocab, num_activated_experts]; empty elsewhere
  std::vector<ExpertWeights> experts;  // [num_routed_experts]
  ExpertWeights shared;
};

struct BlockWeights {
  std::span<const Bf16> attn_norm, ffn_norm;  // [hidden]
  HyperWeights hc_attn, hc_ffn;
  AttentionWeights attn;
  MoeWeights ffn;
};

struct MtpWeights {
  WeightView e_proj, h_proj;  // [hidden, hidden]
  std::span<const Bf16> enorm, hnorm, norm;
  HyperWeights hc_head;
};

struct ModelWeights {
  WeightView embed;  // bf16 [vocab, hidden]
  WeightView head;   // bf16 or f32 [vocab, hidden]
  std::span<const Bf16> norm;
  HyperWeights hc_head;
  std::vector<BlockWeights> blocks;  // [num_layers + num_mtp_layers]
  std::vector<MtpWeights> mtp;       // [num_mtp_layers]

  // What the checkpoint holds beyond what the configuration demands, by name; a warning, no error.
  std::vector<std::string> unused;
  // Keeps the views above alive.
  std::shared_ptr<const void> storage;
  // Reads routed experts from disk; null after BindWeights.
  std::shared_ptr<ReadAhead> read_ahead;
  // Whether there is memory for all of the checkpoint's files.
  bool stay_in_memory = true;
};

// Finds every tensor the configuration demands under any of its names, with the right shape and
// type. Errors name file, tensor, expected and found; all missing tensors are named at once (the
// first ten, then a count). Touches no weight but the small vectors it copies.
Result<ModelWeights> BindWeights(const ModelConfig& config,
                                 std::shared_ptr<const Checkpoint> checkpoint);
// Opens the checkpoint of a folder (or one file of it), binds it and makes ready to read it from
// disk. `memory_bytes` is what may be used; 0 for what the system has to give.
Result<ModelWeights> LoadWeights(const ModelConfig& config, const std::filesystem::path& folder,
                                 int64_t memory_bytes = 0);

}  // namespace dsv4::model
