#include "model/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory_resource>
#include <string_view>
#include <utility>

#include "base/list_text.h"
#include "checkpoint/disk_reads.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"

namespace dsv4::model {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMissingNamed = 10;

struct Storage {
  std::shared_ptr<const Checkpoint> checkpoint;
  std::pmr::monotonic_buffer_resource small;  // the copied vectors
};

// Loads that may be misaligned: files give no alignment beyond what their writer chose.
template <class T>
T LoadAt(std::span<const std::byte> data, int64_t index) {
  T value;
  std::memcpy(&value, data.data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

std::string ShapeText(DType dtype, std::span<const int64_t> shape) {
  return fmt::format("{} [{}]", Name(dtype), fmt::join(shape, ", "));
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string_view FormatText(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp8:
      return "fp8";
    case WeightFormat::kFp4:
      return "fp4";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kF32:
      return "fp32";
  }
  return "?";
}

WeightFormat FormatOf(LinearFormat format) {
  switch (format) {
    case LinearFormat::kFp8:
      return WeightFormat::kFp8;
    case LinearFormat::kFp4:
      return WeightFormat::kFp4;
    case LinearFormat::kBf16:
      return WeightFormat::kBf16;
  }
  return WeightFormat::kBf16;
}

// Finds tensors by canonical name. The first fault is kept and the search goes on, so that all
// missing names are known at the end.
class Binder {
 public:
  Binder(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint)
      : config_(config), storage_(std::make_shared<Storage>()), checkpoint_(*checkpoint) {
    storage_->checkpoint = std::move(checkpoint);
  }

  Status IndexNames();
  ModelWeights Bind();
  // After Bind: the missing tensors, else the first fault.
  Status Outcome() const;

 private:
  const TensorInfo* Take(const std::string& name);
  void Fault(const TensorInfo& tensor, std::string_view expected) {
    Fault(tensor, expected, tensor.TypeText());
  }
  void Fault(const TensorInfo& tensor, std::string_view expected, std::string_view found);
  bool CheckShape(const TensorInfo& tensor, DType dtype, std::span<const int64_t> shape);

  WeightView Linear(const std::string& name, int64_t rows, int64_t cols, WeightFormat expected);
  WeightView Linear(const std::string& name, int64_t rows, int64_t cols) {
    return Linear(name, rows, cols, FormatOf(config_.linear_format));
  }
  // bf16 or F32, no scales.
  WeightView Plain(const std::string& name, int64_t rows, int64_t cols);
  bool AttachScale(const std::string& name, WeightView* view);
  bool Agrees(WeightFormat found, WeightFormat expected, std::string_view name) const;

  template <class T>
  std::span<T> Allocate(int64_t count) {
    const size_t n = static_cast<size_t>(count);
    return {static_cast<T*>(storage_->small.allocate(n * sizeof(T), kAlignment)), n};
  }
  std::span<const float> Floats(const std::string& name, std::vector<int64_t> shape);
  std::span<const Bf16> Norm(const std::string& name, int64_t width);
  std::span<const int64_t> ExpertTable(const std::string& name);

  HyperWeights Hyper(const std::string& name, int64_t rows, int64_t num_scales);
  CompressorWeights Compressor(const std::string& prefix, int32_t ratio, int32_t width);
  AttentionWeights Attention(const std::string& prefix, int32_t ratio);
  ExpertWeights Expert(const std::string& prefix, WeightFormat format);
  MoeWeights Moe(const std::string& prefix, bool hash_routed);
  BlockWeights Block(const std::string& prefix, int32_t block);
  MtpWeights Mtp(const std::string& prefix);

  const ModelConfig& config_;
  std::shared_ptr<Storage> storage_;
  const Checkpoint& checkpoint_;
  bool converted_ = false;
  TensorsByName by_name_;
  std::vector<bool> used_;  // by index into the checkpoint's tensors
  std::vector<std::string> missing_;
  Status fault_;
};

Status Binder::IndexNames() {
  converted_ = checkpoint_.converted_world().has_value();
  const int world = checkpoint_.converted_world().value_or(1);
  if (checkpoint_.rank() && world > 1) {
    return BadInput(
        "{}: expected a whole model, found rank {} of a checkpoint converted for {} ranks; give "
        "the folder that holds all of them",
        checkpoint_.files().front().string(), *checkpoint_.rank(), world);
  }
  DSV4_ASSIGN(by_name_, TensorsByCanonicalName(checkpoint_));
  used_.resize(checkpoint_.tensors().size());
  return {};
}

Status Binder::Outcome() const {
  if (missing_.empty()) return fault_;
  return BadInput("{}: {} tensors that the configuration demands are missing: {}",
                  checkpoint_.folder().string(), missing_.size(),
                  ListText(missing_, kMissingNamed));
}

const TensorInfo* Binder::Take(const std::string& name) {
  const auto place = by_name_.find(name);
  if (place == by_name_.end()) {
    missing_.push_back(name);
    return nullptr;
  }
  used_[static_cast<size_t>(place->second - checkpoint_.tensors().data())] = true;
  return place->second;
}

void Binder::Fault(const TensorInfo& tensor, std::string_view expected, std::string_view found) {
  if (!fault_) return;
  fault_ = BadInput("{}: tensor {}: expected {}, found {}",
                    checkpoint_.files()[tensor.file].string(), tensor.name, expected, found);
}

bool Binder::CheckShape(const TensorInfo& tensor, DType dtype, std::span<const int64_t> shape) {
  if (tensor.dtype == dtype && std::ranges::equal(tensor.shape, shape)) return true;
  Fault(tensor, ShapeText(dtype, shape));
  return false;
}

bool Binder::Agrees(WeightFormat found, WeightFormat expected, std::string_view name) const {
  if (found == expected) return true;
  // Conversion dequantises wo_a, and may turn FP4 experts into FP8 without loss.
  if (expected == WeightFormat::kFp8)
    return found == WeightFormat::kBf16 && name.ends_with(".wo_a");
  return converted_ && expected == WeightFormat::kFp4 && found == WeightFormat::kFp8;
}

WeightView Binder::Linear(const std::string& name, int64_t rows, int64_t cols,
                          WeightFormat expected) {
  const TensorInfo* const tensor = Take(name + ".weight");
  if (tensor == nullptr) {
    if (expected != WeightFormat::kBf16 && !name.ends_with(".wo_a")) Take(name + ".scale");
    return {};
  }
  WeightView view{.data = tensor->data.data(), .rows = rows, .cols = cols};
  DType dtype = tensor->dtype;
  std::vector<int64_t> shape = {rows, cols};
  switch (dtype) {
    case DType::kF8E4M3:
      view.format = WeightFormat::kFp8;
      view.block_rows = config_.weight_block_rows;
      view.block_cols = config_.weight_block_cols;
      break;
    case DType::kI8:
      shape[1] = cols / 2;
      [[fallthrough]];
    case DType::kF4:
      view.format = WeightFormat::kFp4;
      view.block_cols = ModelConfig::kFp4Block;
      break;
    default:
      view.format = WeightFormat::kBf16;
      dtype = DType::kBF16;
      break;
  }
  if (tensor->dtype != dtype || !Agrees(view.format, expected, name)) {
    Fault(*tensor, fmt::format("{} as the configuration says, for a matrix [{}, {}]",
                               FormatText(expected), rows, cols));
    return {};
  }
  if (!CheckShape(*tensor, dtype, shape)) return {};
  if (view.format != WeightFormat::kBf16 && !AttachScale(name + ".scale", &view)) return {};
  return view;
}

bool Binder::AttachScale(const std::string& name, WeightView* view) {
  const TensorInfo* const scale = Take(name);
  if (scale == nullptr) return false;
  const int64_t shape[] = {CeilDivide(view->rows, view->block_rows), view->scale_cols()};
  const DType dtype = scale->dtype == DType::kF32 ? DType::kF32 : DType::kF8E8M0;
  if (!CheckShape(*scale, dtype, shape)) return false;
  view->scale = scale->data.data();
  view->scale_format = dtype == DType::kF32 ? ScaleFormat::kF32 : ScaleFormat::kE8m0;
  return true;
}

WeightView Binder::Plain(const std::string& name, int64_t rows, int64_t cols) {
  const TensorInfo* const tensor = Take(name);
  if (tensor == nullptr) return {};
  const bool wide = tensor->dtype == DType::kF32;
  if (!CheckShape(*tensor, wide ? DType::kF32 : DType::kBF16, std::array{rows, cols})) return {};
  return {.format = wide ? WeightFormat::kF32 : WeightFormat::kBf16,
          .data = tensor->data.data(),
          .rows = rows,
          .cols = cols};
}

std::span<const float> Binder::Floats(const std::string& name, std::vector<int64_t> shape) {
  const TensorInfo* const tensor = Take(name);
  if (tensor == nullptr) return {};
  const bool narrow = tensor->dtype == DType::kBF16;
  if (!CheckShape(*tensor, narrow ? DType::kBF16 : DType::kF32, shape)) return {};
  const std::span<float> copy = Allocate<float>(tensor->num_elements());
  for (size_t i = 0; i < copy.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    copy[i] =
        narrow ? ToFloat(LoadAt<Bf16>(tensor->data, index)) : LoadAt<float>(tensor->data, index);
  }
  return copy;
}

std::span<const Bf16> Binder::Norm(const std::string& name, int64_t width) {
  const TensorInfo* const tensor = Take(name + ".weight");
  if (tensor == nullptr) return {};
  const bool wide = tensor->dtype == DType::kF32;
  if (!CheckShape(*tensor, wide ? DType::kF32 : DType::kBF16, std::array{width})) return {};
  const std::span<Bf16> copy = Allocate<Bf16>(width);
  for (int64_t i = 0; i < width; ++i) {
    Bf16& target = copy[static_cast<size_t>(i)];
    if (!wide) {
      target = LoadAt<Bf16>(tensor->data, i);
      continue;
    }
    const float value = LoadAt<float>(tensor->data, i);
    target = ToBf16(value);
    if (!(ToFloat(target) == value)) {
      Fault(*tensor, fmt::format("values that bf16 holds exactly (element {} is {})", i, value));
      return {};
    }
  }
  return copy;
}

std::span<const int64_t> Binder::ExpertTable(const std::string& name) {
  const TensorInfo* const tensor = Take(name);
  if (tensor == nullptr) return {};
  const int64_t chosen = config_.num_activated_experts;
  const bool narrow = tensor->dtype == DType::kI32;
  const std::array shape{config_.vocab_size, chosen};
  if (!CheckShape(*tensor, narrow ? DType::kI32 : DType::kI64, shape)) return {};
  const int64_t count = tensor->num_elements();
  const auto load = [&](int64_t i) {
    return narrow ? int64_t{LoadAt<int32_t>(tensor->data, i)} : LoadAt<int64_t>(tensor->data, i);
  };
  ReadTensorAhead(tensor->data);
  // A wrong number here would read past the experts, and the table is small.
  for (int64_t i = 0; i < count; ++i) {
    const int64_t expert = load(i);
    if (expert < 0 || expert >= config_.num_routed_experts) {
      Fault(*tensor, fmt::format("experts from 0 to {}", config_.num_routed_experts - 1),
            fmt::format("{} for token {}, slot {}", expert, i / chosen, i % chosen));
      return {};
    }
  }
  const bool aligned = reinterpret_cast<uintptr_t>(tensor->data.data()) % alignof(int64_t) == 0;
  if (!narrow && aligned) {
    return {reinterpret_cast<const int64_t*>(tensor->data.data()), static_cast<size_t>(count)};
  }
  const std::span<int64_t> copy = Allocate<int64_t>(count);
  for (int64_t i = 0; i < count; ++i) copy[static_cast<size_t>(i)] = load(i);
  return copy;
}

HyperWeights Binder::Hyper(const std::string& name, int64_t rows, int64_t num_scales) {
  HyperWeights hyper;
  const int64_t cols = config_.hc_mult * config_.hidden_size;
  const TensorInfo* const fn = Take(name + "_fn");
  if (fn != nullptr && CheckShape(*fn, DType::kF32, std::array{rows, cols})) {
    hyper.fn = {.format = WeightFormat::kF32, .data = fn->data.data(), .rows = rows, .cols = cols};
  }
  hyper.base = Floats(name + "_base", {rows});
  hyper.scale = Floats(name + "_scale", {num_scales});
  return hyper;
}

CompressorWeights Binder::Compressor(const std::string& prefix, int32_t ratio, int32_t width) {
  CompressorWeights compressor;
  compressor.ratio = ratio;
  compressor.width = width;
  const int64_t rows = compressor.row_width();
  compressor.wkv = Plain(prefix + "wkv.weight", rows, config_.hidden_size);
  compressor.wgate = Plain(prefix + "wgate.weight", rows, config_.hidden_size);
  compressor.ape = Floats(prefix + "ape", {ratio, rows});
  compressor.norm = Norm(prefix + "norm", width);
  return compressor;
}

AttentionWeights Binder::Attention(const std::string& prefix, int32_t ratio) {
  const ModelConfig& c = config_;
  const int64_t heads_width = int64_t{c.num_heads} * c.head_dim;
  const int64_t low_width = int64_t{c.o_groups} * c.o_lora_rank;
  AttentionWeights attn;
  attn.ratio = ratio;
  attn.wq_a = Linear(prefix + "wq_a", c.q_lora_rank, c.hidden_size);
  attn.wq_b = Linear(prefix + "wq_b", heads_width, c.q_lora_rank);
  attn.wkv = Linear(prefix + "wkv", c.head_dim, c.hidden_size);
  attn.wo_a = Linear(prefix + "wo_a", low_width, heads_width / c.o_groups);
  attn.wo_b = Linear(prefix + "wo_b", c.hidden_size, low_width);
  attn.q_norm = Norm(prefix + "q_norm", c.q_lora_rank);
  attn.kv_norm = Norm(prefix + "kv_norm", c.head_dim);
  attn.attn_sink = Floats(prefix + "attn_sink", {c.num_heads});
  if (ratio > 0) attn.compressor = Compressor(prefix + "compressor.", ratio, c.head_dim);
  if (ratio == 4) {
    const std::string indexer = prefix + "indexer.";
    attn.indexer.wq_b =
        Linear(indexer + "wq_b", int64_t{c.index_num_heads} * c.index_head_dim, c.q_lora_rank);
    attn.indexer.weights_proj =
        Plain(indexer + "weights_proj.weight", c.index_num_heads, c.hidden_size);
    attn.indexer.compressor = Compressor(indexer + "compressor.", ratio, c.index_head_dim);
  }
  return attn;
}

ExpertWeights Binder::Expert(const std::string& prefix, WeightFormat format) {
  return {.w1 = Linear(prefix + "w1", config_.moe_inter_dim, config_.hidden_size, format),
          .w2 = Linear(prefix + "w2", config_.hidden_size, config_.moe_inter_dim, format),
          .w3 = Linear(prefix + "w3", config_.moe_inter_dim, config_.hidden_size, format)};
}

MoeWeights Binder::Moe(const std::string& prefix, bool hash_routed) {
  MoeWeights moe;
  moe.gate = Plain(prefix + "gate.weight", config_.num_routed_experts, config_.hidden_size);
  if (hash_routed) {
    moe.tid2eid = ExpertTable(prefix + "gate.tid2eid");
  } else {
    moe.bias = Floats(prefix + "gate.bias", {config_.num_routed_experts});
  }
  moe.experts.reserve(static_cast<size_t>(config_.num_routed_experts));
  for (int32_t e = 0; e < config_.num_routed_experts; ++e) {
    moe.experts.push_back(
        Expert(fmt::format("{}experts.{}.", prefix, e), FormatOf(config_.expert_format)));
  }
  moe.shared = Expert(prefix + "shared_experts.", FormatOf(config_.linear_format));
  return moe;
}

BlockWeights Binder::Block(const std::string& prefix, int32_t block) {
  const int32_t ratio = config_.compress_ratios[static_cast<size_t>(block)];
  return {.attn_norm = Norm(prefix + "attn_norm", config_.hidden_size),
          .ffn_norm = Norm(prefix + "ffn_norm", config_.hidden_size),
          .hc_attn = Hyper(prefix + "hc_attn", config_.hc_mix_rows(), 3),
          .hc_ffn = Hyper(prefix + "hc_ffn", config_.hc_mix_rows(), 3),
          .attn = Attention(prefix + "attn.", ratio),
          .ffn = Moe(prefix + "ffn.", config_.is_hash_routed(block))};
}

MtpWeights Binder::Mtp(const std::string& prefix) {
  const int64_t hidden = config_.hidden_size;
  return {.e_proj = Linear(prefix + "e_proj", hidden, hidden),
          .h_proj = Linear(prefix + "h_proj", hidden, hidden),
          .enorm = Norm(prefix + "enorm", hidden),
          .hnorm = Norm(prefix + "hnorm", hidden),
          .norm = Norm(prefix + "norm", hidden),
          .hc_head = Hyper(prefix + "hc_head", config_.hc_mult, 1)};
}

ModelWeights Binder::Bind() {
  ModelWeights weights;
  weights.embed = Linear("embed", config_.vocab_size, config_.hidden_size, WeightFormat::kBf16);
  weights.head = Plain("head.weight", config_.vocab_size, config_.hidden_size);
  weights.norm = Norm("norm", config_.hidden_size);
  weights.hc_head = Hyper("hc_head", config_.hc_mult, 1);
  for (int32_t i = 0; i < config_.num_layers; ++i) {
    weights.blocks.push_back(Block(fmt::format("layers.{}.", i), i));
  }
  for (int32_t i = 0; i < config_.num_mtp_layers; ++i) {
    const std::string prefix = fmt::format("mtp.{}.", i);
    weights.blocks.push_back(Block(prefix, config_.num_layers + i));
    weights.mtp.push_back(Mtp(prefix));
  }
  for (size_t i = 0; i < used_.size(); ++i) {
    const std::string& name = checkpoint_.tensors()[i].name;
    if (!used_[i] && !IsIgnoredTensor(CanonicalName(name))) weights.unused.push_back(name);
  }
  weights.storage = storage_;
  return weights;
}

}  // namespace

Result<ModelWeights> BindWeights(const ModelConfig& config,
                                 std::shared_ptr<const Checkpoint> checkpoint) {
  const SinglePageReads reads(*checkpoint);
  Binder binder(config, checkpoint);
  DSV4_TRY(binder.IndexNames());
  ModelWeights weights = binder.Bind();
  DSV4_TRY(binder.Outcome());
  return weights;
}

Result<ModelWeights> LoadWeights(const ModelConfig& config, const std::filesystem::path& folder,
                                 int64_t memory_bytes) {
  DSV4_ASSIGN(Checkpoint opened, Checkpoint::Open(folder));
  const auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  DSV4_ASSIGN(ModelWeights weights, BindWeights(config, checkpoint));
  DSV4_ASSIGN(WeightReads reads, PlanWeightReads(*checkpoint, memory_bytes));
  weights.read_ahead = std::move(reads.read_ahead);
  weights.stay_in_memory = reads.stay_in_memory;
  return weights;
}

}  // namespace dsv4::model
