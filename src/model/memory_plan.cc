#include "model/memory_plan.h"

#include <algorithm>

#include "model/kv_cache.h"

namespace dsv4::model {
namespace {

int64_t HyperParameters(const ModelConfig& c, int64_t rows, int64_t num_scales) {
  return rows * c.hc_mult * c.hidden_size + rows + num_scales;
}

int64_t CompressorParameters(const ModelConfig& c, int32_t ratio, int64_t width) {
  const int64_t rows = ratio == 4 ? 2 * width : width;
  return 2 * rows * c.hidden_size + ratio * rows + width;
}

int64_t AttentionParameters(const ModelConfig& c, int32_t ratio) {
  const int64_t heads_width = int64_t{c.num_heads} * c.head_dim;
  const int64_t low_width = int64_t{c.o_groups} * c.o_lora_rank;
  const int64_t index_width = int64_t{c.index_num_heads} * c.index_head_dim;
  int64_t count = c.q_lora_rank * (c.hidden_size + heads_width + 1);  // wq_a, wq_b, q_norm
  count += c.head_dim * (c.hidden_size + 1) + c.num_heads;            // wkv, kv_norm, attn_sink
  count += low_width * (heads_width / c.o_groups + c.hidden_size);    // wo_a, wo_b
  if (ratio > 0) count += CompressorParameters(c, ratio, c.head_dim);
  if (ratio == 4) {
    count += index_width * c.q_lora_rank + c.index_num_heads * c.hidden_size +
             CompressorParameters(c, ratio, c.index_head_dim);
  }
  return count;
}

int64_t ExpertParameters(const ModelConfig& c) { return 3 * c.hidden_size * c.moe_inter_dim; }

// All but the routed experts.
int64_t CommonParameters(const ModelConfig& c, int32_t block) {
  return AttentionParameters(c, c.compress_ratios[static_cast<size_t>(block)]) + 2 * c.hidden_size +
         2 * HyperParameters(c, c.hc_mix_rows(), 3) +
         c.num_routed_experts * (c.hidden_size + (c.is_hash_routed(block) ? 0 : 1)) +
         c.num_shared_experts * ExpertParameters(c);
}

}  // namespace

ParameterCounts CountParameters(const ModelConfig& c) {
  ParameterCounts counts;
  const int64_t embedding = c.vocab_size * c.hidden_size;
  const int64_t head = embedding + c.hidden_size + HyperParameters(c, c.hc_mult, 1);
  const int64_t routed = c.num_routed_experts * ExpertParameters(c);
  counts.total = embedding + head;
  counts.active = head;
  for (int32_t i = 0; i < c.num_layers; ++i) {
    const int64_t common = CommonParameters(c, i);
    counts.total += common + routed;
    counts.active += common + c.num_activated_experts * ExpertParameters(c);
  }
  for (int32_t i = c.num_layers; i < c.num_blocks(); ++i) {
    counts.mtp += CommonParameters(c, i) + routed + 2 * c.hidden_size * c.hidden_size +
                  3 * c.hidden_size + HyperParameters(c, c.hc_mult, 1);
  }
  return counts;
}

std::string_view FitText(Fit fit) {
  switch (fit) {
    case Fit::kInMemory:
      return "fits in memory";
    case Fit::kWeightsPageFromDisk:
      return "weights page from disk";
    case Fit::kDoesNotFit:
      return "does not fit";
  }
  return "?";
}

double MemoryPlan::kv_bytes_per_token() const {
  return static_cast<double>(kv_page_bytes) / static_cast<double>(KvLayout::kPageTokens);
}

int64_t MemoryPlan::kv_bytes(int64_t num_tokens) const {
  return KvLayout::PagesFor(num_tokens) * kv_page_bytes;
}

int64_t MemoryPlan::working_bytes() const {
  return joined_bytes + workspace_bytes + state_bytes + kv_bytes(context);
}

Fit MemoryPlan::fit() const {
  if (working_bytes() > available_bytes) return Fit::kDoesNotFit;
  return weights_bytes - joined_bytes > available_bytes - working_bytes()
             ? Fit::kWeightsPageFromDisk
             : Fit::kInMemory;
}

int64_t MemoryPlan::longest_context() const {
  const int64_t room = available_bytes - joined_bytes - workspace_bytes - state_bytes;
  if (room < 0) return 0;
  if (kv_page_bytes == 0) return context;
  return std::min(context, room / kv_page_bytes * KvLayout::kPageTokens);
}

MemoryPlan PlanMemory(const ModelConfig& config, int64_t weights_bytes, int64_t workspace_bytes,
                      int64_t available_bytes) {
  const KvLayout layout(config);
  return {.weights_bytes = weights_bytes,
          .workspace_bytes = workspace_bytes,
          .state_bytes = layout.slot_bytes(),
          .kv_page_bytes = layout.page_bytes(),
          .context = config.max_positions,
          .available_bytes = available_bytes};
}

}  // namespace dsv4::model
