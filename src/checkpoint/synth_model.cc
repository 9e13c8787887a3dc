#include "checkpoint/synth_model.h"

#include "checkpoint/header.h"

namespace dsv4 {
namespace {

constexpr int32_t kOne = 262144;  // 1 at power 18
constexpr int64_t kTile = 128;    // rows and columns under one scale of FP8
constexpr int64_t kFp4Group = 32;

// Smallest k with 2·4^k > n: about half of log2 n.
int32_t HalfLog(int64_t n) {
  int32_t k = 0;
  while ((int64_t{2} << (2 * k)) <= n) ++k;
  return k;
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class Format { kFp8, kFp4, kBf16 };

// Lists the tensors of one checkpoint in file order.
class Lister {
 public:
  explicit Lister(const SynthConfig& config)
      : config_(config),
        linear_(config.quantized ? Format::kFp8 : Format::kBf16),
        expert_(config.quantized && config.fp4_experts ? Format::kFp4 : linear_) {}

  std::vector<SynthTensor> List() {
    const SynthConfig& c = config_;
    Bell("embed.weight", DType::kBF16, {c.vocab_size, c.hidden_size}, 15);
    for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
      Block(fmt::format("layers.{}.", i), i, i < c.num_hash_layers);
    }
    for (int64_t j = 0; j < c.num_nextn_predict_layers; ++j) Mtp(j);
    Norm("norm.weight", c.hidden_size, kOne);
    Hyper("hc_head", c.hc_mult, 1);
    Bell("head.weight", DType::kBF16, {c.vocab_size, c.hidden_size}, 14 + HalfLog(c.hidden_size));
    return std::move(tensors_);
  }

 private:
  SynthTensor& Add(std::string name, DType dtype, std::vector<int64_t> shape, SynthKind kind) {
    SynthTensor& tensor = tensors_.emplace_back();
    tensor.name = std::move(name);
    tensor.dtype = dtype;
    tensor.shape = std::move(shape);
    tensor.kind = kind;
    return tensor;
  }

  void Bell(std::string name, DType dtype, std::vector<int64_t> shape, int32_t power,
            int32_t offset = 0) {
    SynthTensor& tensor = Add(std::move(name), dtype, std::move(shape), SynthKind::kBell);
    tensor.power = power;
    tensor.offset = offset;
  }

  void Norm(std::string name, int64_t width, int32_t mean) {
    Bell(std::move(name), DType::kBF16, {width}, 18, mean);
  }

  // Each step of `gain` doubles the weights.
  void Linear(const std::string& name, std::vector<int64_t> shape, int32_t gain, Format format) {
    const int64_t out = shape[0];
    const int64_t in = shape[1];
    const std::string weight = name + ".weight";
    const std::string scale = name + ".scale";
    switch (format) {
      case Format::kFp8:
        Add(weight, DType::kF8E4M3, {out, in}, SynthKind::kFp8);
        Add(scale, DType::kF8E8M0, {CeilDiv(out, kTile), CeilDiv(in, kTile)}, SynthKind::kScale)
            .base = 119 - HalfLog(in) + gain;
        return;
      case Format::kFp4:
        Add(weight, DType::kI8, {out, in / 2}, SynthKind::kRaw);
        Add(scale, DType::kF8E8M0, {out, in / kFp4Group}, SynthKind::kScale).base =
            125 - HalfLog(in) + gain;
        return;
      case Format::kBf16:
        Bell(weight, DType::kBF16, {out, in}, 15 + HalfLog(in) - gain);
        return;
    }
  }

  void Hyper(const std::string& name, int64_t rows, int64_t num_scales) {
    const int64_t width = config_.hc_mult * config_.hidden_size;
    Bell(name + "_fn", DType::kF32, {rows, width}, 15 + HalfLog(width));
    Add(name + "_base", DType::kF32, {rows}, SynthKind::kHyperBase).narrow =
        static_cast<uint64_t>(2 * config_.hc_mult);
    Bell(name + "_scale", DType::kF32, {num_scales}, 18, kOne);
  }

  void Compressor(const std::string& name, int64_t ratio, int64_t width, int32_t norm_mean) {
    const int64_t n = ratio == 4 ? 2 * width : width;
    const int64_t d = config_.hidden_size;
    Bell(name + ".ape", DType::kF32, {ratio, n}, 15);
    Bell(name + ".wkv.weight", DType::kBF16, {n, d}, 15 + HalfLog(d));
    Bell(name + ".wgate.weight", DType::kBF16, {n, d}, 15 + HalfLog(d));
    Norm(name + ".norm.weight", width, norm_mean);
  }

  void Attention(const std::string& name, int64_t ratio) {
    const SynthConfig& c = config_;
    const int64_t d = c.hidden_size;
    constexpr int32_t kOneAndAHalf = kOne * 3 / 2;
    const int64_t heads_width = c.num_attention_heads * c.head_dim;
    const int64_t low_width = c.o_groups * c.o_lora_rank;
    Bell(name + ".attn_sink", DType::kF32, {c.num_attention_heads}, 15, 131072);
    Linear(name + ".wq_a", {c.q_lora_rank, d}, 0, linear_);
    Norm(name + ".q_norm.weight", c.q_lora_rank, kOne);
    Linear(name + ".wq_b", {heads_width, c.q_lora_rank}, 0, linear_);
    Linear(name + ".wkv", {c.head_dim, d}, 0, linear_);
    Norm(name + ".kv_norm.weight", c.head_dim, kOneAndAHalf);
    Linear(name + ".wo_a", {low_width, heads_width / c.o_groups}, 1, linear_);
    Linear(name + ".wo_b", {d, low_width}, 1, linear_);
    if (ratio > 0) Compressor(name + ".compressor", ratio, c.head_dim, kOneAndAHalf);
    if (ratio != 4) return;
    Linear(name + ".indexer.wq_b", {c.index_n_heads * c.index_head_dim, c.q_lora_rank}, 0, linear_);
    Bell(name + ".indexer.weights_proj.weight", DType::kBF16, {c.index_n_heads, d},
         15 + HalfLog(d));
    Compressor(name + ".indexer.compressor", ratio, c.index_head_dim, kOne);
  }

  void Expert(const std::string& name, Format format) {
    const int64_t d = config_.hidden_size;
    const int64_t width = config_.moe_intermediate_size;
    Linear(name + ".w1", {width, d}, 2, format);
    Linear(name + ".w2", {d, width}, -3, format);
    Linear(name + ".w3", {width, d}, 2, format);
  }

  void Block(const std::string& prefix, int64_t layer, bool hash_routed) {
    const SynthConfig& c = config_;
    Norm(prefix + "attn_norm.weight", c.hidden_size, kOne);
    Norm(prefix + "ffn_norm.weight", c.hidden_size, kOne);
    Hyper(prefix + "hc_attn", (2 + c.hc_mult) * c.hc_mult, 3);
    Hyper(prefix + "hc_ffn", (2 + c.hc_mult) * c.hc_mult, 3);
    Attention(prefix + "attn", c.compress_ratios[static_cast<size_t>(layer)]);
    const std::string gate = prefix + "ffn.gate.";
    Bell(gate + "weight", DType::kBF16, {c.n_routed_experts, c.hidden_size},
         15 + HalfLog(c.hidden_size));
    if (hash_routed) {
      Add(gate + "tid2eid", DType::kI64, {c.vocab_size, c.num_experts_per_tok},
          SynthKind::kTokenExperts)
          .experts = static_cast<uint64_t>(c.n_routed_experts);
    } else {
      Bell(gate + "bias", DType::kF32, {c.n_routed_experts}, 17);
    }
    for (int64_t e = 0; e < c.n_routed_experts; ++e) {
      Expert(fmt::format("{}ffn.experts.{}", prefix, e), expert_);
    }
    Expert(prefix + "ffn.shared_experts", linear_);
  }

  void Mtp(int64_t j) {
    const int64_t d = config_.hidden_size;
    const std::string prefix = fmt::format("mtp.{}.", j);
    Block(prefix, config_.num_hidden_layers + j, false);
    Linear(prefix + "e_proj", {d, d}, 0, linear_);
    Linear(prefix + "h_proj", {d, d}, 0, linear_);
    for (const char* const norm : {"enorm", "hnorm", "norm"}) {
      Norm(fmt::format("{}{}.weight", prefix, norm), d, kOne);
    }
    Hyper(prefix + "hc_head", config_.hc_mult, 1);
  }

  const SynthConfig& config_;
  const Format linear_;
  const Format expert_;
  std::vector<SynthTensor> tensors_;
};

}  // namespace

Result<SynthModel> SynthModel::Make(std::string_view preset,
                                    std::span<const SynthSetting> settings) {
  DSV4_ASSIGN(SynthConfig config, MakeSynthConfig(preset, settings));
  SynthModel model;
  model.tensors_ = Lister(config).List();
  model.config_json_ = std::move(config.json);
  uint64_t sum = 0;
  for (const SynthTensor& tensor : model.tensors_) {
    const auto bytes = BytesOfShape(tensor.dtype, tensor.shape);
    if (!bytes || __builtin_add_overflow(sum, *bytes, &sum)) {
      return DoesNotFit("tensor {} [{}]: its bytes overflow 64 bits", tensor.name,
                        fmt::join(tensor.shape, ", "));
    }
  }
  return model;
}

uint64_t SynthModel::data_bytes() const {
  uint64_t sum = 0;
  for (const SynthTensor& tensor : tensors_) sum += tensor.num_bytes();
  return sum;
}

}  // namespace dsv4
