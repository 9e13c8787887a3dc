#include "tools/bench_bytes.h"

#include <span>

#include "base/check.h"

namespace dsv4::tools {
namespace {

class Adder {
 public:
  template <class... Weights>
  void Add(const Weights&... weights) {
    (AddOne(weights), ...);
  }
  const WeightBytes& sum() const { return sum_; }

 private:
  void AddOne(const WeightView& weight) {
    const int64_t bytes = weight.rows * weight.row_bytes();
    switch (weight.format) {
      case WeightFormat::kFp8:
        sum_.fp8 += bytes;
        break;
      case WeightFormat::kFp4:
        sum_.fp4 += bytes;
        break;
      case WeightFormat::kBf16:
        sum_.bf16 += bytes;
        break;
      case WeightFormat::kF32:
        sum_.f32 += bytes;
        break;
    }
    if (weight.scale_format == ScaleFormat::kNone) return;
    const int64_t scale_rows = (weight.rows + weight.block_rows - 1) / weight.block_rows;
    sum_.scales +=
        scale_rows * weight.scale_cols() * (weight.scale_format == ScaleFormat::kF32 ? 4 : 1);
  }
  void AddOne(std::span<const Bf16> values) {
    sum_.bf16 += static_cast<int64_t>(values.size_bytes());
  }
  void AddOne(std::span<const float> values) {
    sum_.f32 += static_cast<int64_t>(values.size_bytes());
  }
  void AddOne(const ExpertView& expert) { Add(expert.w1, expert.w2, expert.w3); }
  void AddOne(const model::HyperWeights& hyper) { Add(hyper.fn, hyper.base, hyper.scale); }
  void AddOne(const model::CompressorWeights& compressor) {
    if (compressor.ratio == 0) return;
    Add(compressor.wkv, compressor.wgate, compressor.ape, compressor.norm);
  }
  void AddOne(const model::AttentionWeights& attn) {
    Add(attn.wq_a, attn.wq_b, attn.wkv, attn.wo_a, attn.wo_b);
    Add(attn.q_norm, attn.kv_norm, attn.attn_sink, attn.compressor);
    if (attn.ratio == 4) {
      Add(attn.indexer.wq_b, attn.indexer.weights_proj, attn.indexer.compressor);
    }
  }
  void AddOne(const model::BlockWeights& block) {
    Add(block.attn_norm, block.ffn_norm, block.hc_attn, block.hc_ffn, block.attn);
    Add(block.ffn.gate, block.ffn.bias, block.ffn.shared);
  }

  WeightBytes sum_;
};

// As the profile counts a product's bytes: a slice of rows takes its share of the scales.
int64_t ProfiledBytes(const ExpertView& expert) {
  int64_t bytes = 0;
  for (const WeightView* weight : {&expert.w1, &expert.w2, &expert.w3}) {
    bytes += weight->bytes_of_rows(weight->rows);
  }
  return bytes;
}

}  // namespace

void WeightBytes::Add(const WeightBytes& other, int64_t times) {
  fp8 += times * other.fp8;
  fp4 += times * other.fp4;
  bf16 += times * other.bf16;
  f32 += times * other.f32;
  scales += times * other.scales;
}

WeightBytes CommonBytes(const model::ModelConfig& config, const model::ModelWeights& weights) {
  Adder adder;
  adder.Add(weights.head, weights.norm, weights.hc_head);
  for (int32_t i = 0; i < config.num_layers; ++i) adder.Add(weights.blocks[static_cast<size_t>(i)]);
  return adder.sum();
}

WeightBytes ExpertBytes(const model::ModelWeights& weights) {
  Adder adder;
  adder.Add(weights.blocks[0].ffn.experts[0]);
  return adder.sum();
}

StepBytes BytesOf(const model::ModelConfig& config, const model::ModelWeights& weights,
                  const OpProfile& profile, int64_t num_steps) {
  const model::MoeWeights& moe = weights.blocks[0].ffn;
  StepBytes bytes;
  const int64_t routed = profile[OpKind::kExpertsProducts].bytes -
                         num_steps * config.num_layers * ProfiledBytes(moe.shared);
  const int64_t expert = ProfiledBytes(moe.experts[0]);
  DSV4_CHECK(routed >= 0 && routed % expert == 0, "{} bytes of experts of {}", routed, expert);
  bytes.num_experts = routed / expert;
  bytes.weights.Add(CommonBytes(config, weights), num_steps);
  bytes.weights.Add(ExpertBytes(weights), bytes.num_experts);
  bytes.kv_rows = profile[OpKind::kAttention].bytes;
  bytes.index_keys = profile[OpKind::kIndexSelect].bytes;
  return bytes;
}

}  // namespace dsv4::tools
