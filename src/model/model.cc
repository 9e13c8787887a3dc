#include "model/model.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "model/block.h"
#include "model/rope_table.h"
#include "model/step.h"
#include "model/weights.h"

namespace dsv4::model {
namespace {

std::optional<Yarn> YarnOf(const ModelConfig& config) {
  if (!config.yarn) return std::nullopt;
  return Yarn{static_cast<double>(config.yarn->original_max_positions), config.yarn->factor,
              config.yarn->beta_fast, config.yarn->beta_slow};
}

}  // namespace

int64_t Model::WorkspaceBytes(const ModelConfig& config, int32_t max_rows, int num_threads) {
  constexpr int64_t kPrepared = 8;
  const int64_t hidden = config.hidden_size;
  const int64_t copies = config.hc_mult * hidden;
  const int64_t o_width = int64_t{config.num_heads} * config.head_dim;
  const int64_t low = int64_t{config.o_groups} * config.o_lora_rank;
  const int64_t index = int64_t{config.index_num_heads} * config.index_head_dim;
  const int64_t chosen = config.num_activated_experts + int64_t{config.num_shared_experts};
  const int64_t hyper = copies * (4 + 2 * kPrepared);
  const int64_t attention =
      hidden * (8 + 2 * kPrepared) + (config.q_lora_rank + low) * (4 + kPrepared) +
      o_width * (2 + kPrepared) + config.head_dim * 64 + index * 8 + int64_t{config.index_topk} * 4;
  const int64_t moe =
      config.num_routed_experts * 8 + hidden * (8 + 2 * kPrepared) +
      chosen * (hidden * (4 + kPrepared) + config.moe_inter_dim * (4 + kPrepared) + 64);
  const int64_t entries = config.max_positions / 4 + KvLayout::kPageTokens;
  // Each run has a pointer to each of its pages, for entries and for index keys.
  const int64_t pages = KvLayout::PagesFor(config.max_positions) * 2 * int64_t{sizeof(void*)};
  const int64_t per_thread = entries * 16 + o_width * 32 + (int64_t{1} << 20);
  return (hyper + attention + moe + pages + 4096) * max_rows + per_thread * num_threads +
         entries * 32 + (int64_t{1} << 26);
}

struct Model::Impl {
  Impl(ModelConfig config_in, ModelWeights weights_in, Ops& ops_in, Workspace workspace_in,
       int32_t max_rows_in)
      : config(std::move(config_in)),
        weights(std::move(weights_in)),
        ops(ops_in),
        workspace(std::move(workspace_in)),
        max_rows(max_rows_in),
        window_frequencies(RopeFrequencies(config.rope_head_dim, config.rope_theta, std::nullopt)),
        compressed_frequencies(
            RopeFrequencies(config.rope_head_dim, config.compress_rope_theta, YarnOf(config))) {
    if (weights.stay_in_memory) {
      asked_experts.resize(static_cast<size_t>(config.num_blocks() * config.num_routed_experts));
    }
  }

  RopeTable Angles(std::span<const float> frequencies, std::span<const int64_t> positions) {
    const int64_t half = config.rope_head_dim / 2;
    const int64_t count = static_cast<int64_t>(positions.size());
    float* cos = workspace.Take<float>(count * half);
    float* sin = workspace.Take<float>(count * half);
    for (int64_t t = 0; t < count; ++t) {
      RopeAngles(frequencies, positions[static_cast<size_t>(t)], cos + t * half, sin + t * half);
    }
    return {cos, sin, config.rope_head_dim};
  }

  void CheckBatch(const Batch& batch, KvCache& cache) const {
    DSV4_CHECK(batch.num_rows() <= max_rows, "{} rows, at most {}", batch.num_rows(), max_rows);
    int64_t rows = 0;
    for (const SequenceRun& run : batch.runs) {
      DSV4_CHECK(run.num_rows >= 1 && run.start >= 0 && run.slot < cache.num_slots());
      DSV4_CHECK(run.start + run.num_rows <= config.max_positions,
                 "position {}, beyond the last of the model's {}", run.start + run.num_rows - 1,
                 config.max_positions);
      DSV4_CHECK(
          cache.layout().page_bytes() == 0 || static_cast<int64_t>(run.pages.size()) >=
                                                  KvLayout::PagesFor(run.start + run.num_rows),
          "{} pages for {} tokens", run.pages.size(), run.start + run.num_rows);
      rows += run.num_rows;
    }
    DSV4_CHECK(rows == batch.num_rows(), "runs of {} rows, {} tokens", rows, batch.num_rows());
  }

  // Positions, runs and angles of a batch, in the workspace.
  Step MakeStep(const Batch& batch, KvCache& cache, TapSink* taps) {
    CheckBatch(batch, cache);
    const size_t num_runs = batch.runs.size();
    int64_t* positions = workspace.Take<int64_t>(batch.num_rows());
    int64_t* run_begin = workspace.Take<int64_t>(static_cast<int64_t>(num_runs));
    int64_t row = 0;
    for (size_t r = 0; r < num_runs; ++r) {
      run_begin[r] = row;
      for (int64_t i = 0; i < batch.runs[r].num_rows; ++i) {
        positions[row++] = batch.runs[r].start + i;
      }
    }
    Step step{config,  ops, workspace, batch, cache, taps, {}, {}, {}, {}, compressed_frequencies,
              nullptr, {}};
    step.positions = {positions, static_cast<size_t>(row)};
    step.run_begin = {run_begin, num_runs};
    step.window_rope = Angles(window_frequencies, step.positions);
    step.compressed_rope = Angles(compressed_frequencies, step.positions);
    step.read_ahead = weights.read_ahead.get();
    step.asked_experts = asked_experts;
    return step;
  }

  // logits of `count` rows of h [*, hc, hidden]; rows null for the first `count`.
  void Head(const Bf16* h, const int32_t* rows, int64_t count, const HyperWeights& hc_head,
            std::span<const Bf16> norm, float* logits) {
    if (count == 0) return;
    const Workspace::Scope scope(workspace);
    const int64_t copies = config.hc_mult * config.hidden_size;
    const Bf16* picked = h;
    if (rows != nullptr) {
      Bf16* gathered = workspace.Take<Bf16>(count * copies);
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(gathered + i * copies, h + rows[i] * copies,
                    static_cast<size_t>(copies) * sizeof(Bf16));
      }
      picked = gathered;
    }
    Bf16* x = workspace.Take<Bf16>(count * config.hidden_size);
    HyperHeadArgs args;
    args.h = picked;
    args.num_rows = count;
    args.hc = config.hc_mult;
    args.dim = config.hidden_size;
    args.fn = hc_head.fn;
    args.base = hc_head.base.data();
    args.scale = hc_head.scale[0];
    args.norm_eps = config.norm_eps;
    args.hc_eps = config.hc_eps;
    args.x = x;
    ops.HyperHead(args, workspace);
    ops.RmsNorm(x, norm.data(), count, config.hidden_size, config.norm_eps, x);
    const PreparedRows prepared =
        ops.Prepare(x, count, config.hidden_size, config.hidden_size, ActivationSpec{}, workspace);
    ops.LinearF32(prepared, weights.head, logits);
  }

  // h = e_proj · enorm(embed[next]) + h_proj · hnorm(h) per copy (docs/numerics.md, MTP).
  void EnterMtp(const Step& step, const MtpWeights& mtp, Bf16* h) {
    const Workspace::Scope scope(workspace);
    const int64_t num_rows = step.num_rows();
    const int64_t hidden = config.hidden_size;
    const int64_t num_copies = num_rows * config.hc_mult;
    Bf16* e = workspace.Take<Bf16>(num_rows * hidden);
    Bf16* projected = workspace.Take<Bf16>(num_rows * hidden);
    ops.Embed(step.batch.tokens, weights.embed, 1, e);
    ops.RmsNorm(e, mtp.enorm.data(), num_rows, hidden, config.norm_eps, e);
    SublayerInput e_input(step, e, num_rows, hidden);
    ops.Linear(e_input.For(mtp.e_proj), mtp.e_proj, projected);
    Bf16* normed = workspace.Take<Bf16>(num_copies * hidden);
    ops.RmsNorm(h, mtp.hnorm.data(), num_copies, hidden, config.norm_eps, normed);
    SublayerInput h_input(step, normed, num_copies, hidden);
    ops.Linear(h_input.For(mtp.h_proj), mtp.h_proj, h);
    ops.AddToCopies(projected, num_rows, config.hc_mult, hidden, h);
  }

  // Block `block` on h [T, hc, hidden] in place.
  void Block(const Step& step, int32_t block, Bf16* h) {
    if (config.is_mtp(block)) {
      EnterMtp(step, weights.mtp[static_cast<size_t>(block - config.num_layers)], h);
    }
    RunBlock(step, weights.blocks[static_cast<size_t>(block)], block, h);
  }

  int64_t hidden_elements(const Batch& batch) const {
    return batch.num_rows() * config.hc_mult * config.hidden_size;
  }

  const ModelConfig config;
  const ModelWeights weights;
  Ops& ops;
  Workspace workspace;
  const int32_t max_rows;
  const std::vector<float> window_frequencies;
  const std::vector<float> compressed_frequencies;
  std::vector<uint8_t> asked_experts;  // see Step
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::Load(const std::filesystem::path& folder, Ops& ops,
                                           const Options& options) {
  DSV4_ASSIGN(ModelConfig config, LoadConfig(folder));
  DSV4_ASSIGN(ModelWeights weights, LoadWeights(config, folder, options.memory_bytes));
  DSV4_ASSIGN(Workspace workspace,
              Workspace::Create(WorkspaceBytes(config, options.max_rows, ops.num_threads())));
  return std::unique_ptr<Model>(new Model(std::make_unique<Impl>(
      std::move(config), std::move(weights), ops, std::move(workspace), options.max_rows)));
}

const ModelConfig& Model::config() const { return impl_->config; }
const std::vector<std::string>& Model::unused_tensors() const { return impl_->weights.unused; }
bool Model::weights_stay_in_memory() const { return impl_->weights.stay_in_memory; }
int64_t Model::workspace_bytes() const { return impl_->workspace.capacity(); }
int64_t Model::workspace_used() const { return impl_->workspace.high_water(); }
int32_t Model::max_rows() const { return impl_->max_rows; }

void Model::Forward(const Batch& batch, KvCache& cache, const ForwardOutput& output) {
  const Workspace::Scope scope(impl_->workspace);
  const Step step = impl_->MakeStep(batch, cache, output.taps);
  const ModelConfig& config = impl_->config;
  Bf16* h = output.hidden != nullptr ? output.hidden
                                     : impl_->workspace.Take<Bf16>(impl_->hidden_elements(batch));
  impl_->ops.Embed(batch.tokens, impl_->weights.embed, config.hc_mult, h);
  for (int32_t layer = 0; layer < config.num_layers; ++layer) impl_->Block(step, layer, h);
  impl_->Head(h, batch.logit_rows.data(), static_cast<int64_t>(batch.logit_rows.size()),
              impl_->weights.hc_head, impl_->weights.norm, output.logits);
}

void Model::ForwardMtp(int32_t index, const Batch& batch, const Bf16* hidden, KvCache& cache,
                       const ForwardOutput& output) {
  const Workspace::Scope scope(impl_->workspace);
  const Step step = impl_->MakeStep(batch, cache, output.taps);
  const MtpWeights& mtp = impl_->weights.mtp[static_cast<size_t>(index)];
  const int64_t elements = impl_->hidden_elements(batch);
  Bf16* h = output.hidden != nullptr ? output.hidden : impl_->workspace.Take<Bf16>(elements);
  std::copy_n(hidden, elements, h);
  impl_->Block(step, impl_->config.num_layers + index, h);
  impl_->Head(h, batch.logit_rows.data(), static_cast<int64_t>(batch.logit_rows.size()),
              mtp.hc_head, mtp.norm, output.logits);
}

void Model::ForwardBlock(int32_t block, const Batch& batch, Bf16* hidden, KvCache& cache,
                         TapSink* taps) {
  const Workspace::Scope scope(impl_->workspace);
  impl_->Block(impl_->MakeStep(batch, cache, taps), block, hidden);
}

void Model::ForwardHead(const Bf16* hidden, int64_t num_rows, float* logits) {
  impl_->Head(hidden, nullptr, num_rows, impl_->weights.hc_head, impl_->weights.norm, logits);
}

std::vector<Bf16> Model::EmbedRows(std::span<const int32_t> tokens) {
  const ModelConfig& config = impl_->config;
  std::vector<Bf16> h(tokens.size() * static_cast<size_t>(config.hc_mult * config.hidden_size));
  impl_->ops.Embed(tokens, impl_->weights.embed, config.hc_mult, h.data());
  return h;
}

std::vector<std::string> Model::TapNames() const {
  const ModelConfig& config = impl_->config;
  std::vector<std::string> names;
  for (int32_t block = 0; block < config.num_blocks(); ++block) {
    const int32_t ratio = config.compress_ratios[static_cast<size_t>(block)];
    std::vector<std::string_view> taps = {"q", "kv"};
    if (ratio > 0) taps.push_back("entries");
    if (ratio == 4) {
      for (const auto tap : {"index.entries", "index_q", "index_score", "index_sel"}) {
        taps.push_back(tap);
      }
    }
    for (const auto tap : {"o", "attn_out", "router_idx", "router_w", "ffn_out", "H"}) {
      taps.push_back(tap);
    }
    for (const std::string_view tap : taps) {
      names.push_back(config.is_mtp(block) ? fmt::format("M{}.{}", block - config.num_layers, tap)
                                           : fmt::format("L{}.{}", block, tap));
    }
  }
  return names;
}

}  // namespace dsv4::model
