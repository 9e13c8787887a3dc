#include "model/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/compressor.h"
#include "model/indexer.h"

namespace dsv4::model {
namespace {

// Packed window rows of this step, [T].
const std::byte* WindowRows(const Step& step, const AttentionWeights& weights, int32_t block,
                            SublayerInput& x) {
  const KvRowLayout row = step.cache.layout().row();
  const int64_t num_rows = step.num_rows();
  Bf16* kv = step.workspace.Take<Bf16>(num_rows * row.width);
  step.ops.Linear(x.For(weights.wkv), weights.wkv, kv);
  step.ops.RmsNorm(kv, weights.kv_norm.data(), num_rows, row.width, step.config.norm_eps, kv);
  step.ops.Rope(kv, num_rows, 1, row.width, step.rope(weights.ratio), /*inverse=*/false);
  std::byte* packed = step.workspace.TakeBytes(num_rows * row.row_bytes());
  step.ops.PackKvRows(kv, num_rows, row, packed);
  if (step.Wants(block, "kv")) {
    step.ops.UnpackKvRows(packed, num_rows, row, kv);
    step.Tap(block, "kv", DType::kBF16, {num_rows, row.width}, kv);
  }
  return packed;
}

void AppendEntries(const Step& step, const AttentionWeights& weights, int32_t block,
                   SublayerInput& x) {
  const KvLayout::Block& layout = step.cache.layout().block(block);
  const KvRowLayout row = step.cache.layout().row();
  const NewEntries entries = Compress(step, weights.compressor, layout.carry, x);
  std::byte* packed = step.workspace.TakeBytes(entries.count * row.row_bytes());
  step.ops.PackKvRows(entries.values, entries.count, row, packed);
  StoreEntries(step, entries, weights.ratio, layout.entries_offset, row.row_bytes(), packed);
  if (step.Wants(block, "entries")) {
    step.ops.UnpackKvRows(packed, entries.count, row, entries.values);
    step.Tap(block, "entries", DType::kBF16, {entries.count, row.width}, entries.values);
  }
}

// Replaces q [T, heads, width] by the attention's output.
void Attend(const Step& step, const AttentionWeights& weights, int32_t block,
            const std::byte* fresh, const Selection& selection, Bf16* q) {
  const KvLayout& layout = step.cache.layout();
  const KvLayout::Block& place = layout.block(block);
  const size_t num_runs = step.batch.runs.size();
  KvSource* sources = step.workspace.Take<KvSource>(static_cast<int64_t>(num_runs));
  QueryRow* rows = step.workspace.Take<QueryRow>(step.num_rows());
  const std::span<const std::byte* const*> pages = weights.ratio > 0
                                                       ? PagePointers(step, place.entries_offset)
                                                       : std::span<const std::byte* const*>();
  for (size_t r = 0; r < num_runs; ++r) {
    const SequenceRun& run = step.batch.runs[r];
    KvSource& source = sources[r];
    source = {};
    source.ring = step.cache.slot(run.slot).data() + place.window_offset;
    source.fresh = fresh + step.run_begin[r] * layout.row().row_bytes();
    source.start = run.start;
    source.window = layout.window_size();
    if (weights.ratio > 0) {
      source.entry_pages = pages[r];
      source.entries_per_page = static_cast<int32_t>(KvLayout::kPageTokens / weights.ratio);
    }
    for (int64_t i = 0; i < run.num_rows; ++i) {
      const int64_t t = step.run_begin[r] + i;
      QueryRow& row = rows[t];
      row = {static_cast<int32_t>(r), run.start + i, nullptr, 0};
      if (weights.ratio == 4) {
        row.selected = selection.rows[static_cast<size_t>(t)].indices;
        row.num_entries = selection.rows[static_cast<size_t>(t)].count;
      } else if (weights.ratio > 0) {
        row.num_entries = (row.position + 1) / weights.ratio;
      }
    }
  }
  AttentionArgs args;
  args.q = q;
  args.num_heads = step.config.num_heads;
  args.layout = layout.row();
  args.sources = {sources, num_runs};
  args.rows = {rows, static_cast<size_t>(step.num_rows())};
  args.sink = weights.attn_sink.data();
  args.scale = static_cast<float>(1.0 / std::sqrt(double{1} * step.config.head_dim));
  step.ops.Attention(args, step.workspace);
}

// The last rows of each run become the ring's.
void AdvanceWindows(const Step& step, int32_t block, const std::byte* fresh) {
  const KvLayout& layout = step.cache.layout();
  const int64_t row_bytes = layout.row().row_bytes();
  for (size_t r = 0; r < step.batch.runs.size(); ++r) {
    const SequenceRun& run = step.batch.runs[r];
    std::byte* ring = step.cache.slot(run.slot).data() + layout.block(block).window_offset;
    const int64_t end = run.start + run.num_rows;
    for (int64_t p = std::max(run.start, end - layout.window_size()); p < end; ++p) {
      std::memcpy(ring + p % layout.window_size() * row_bytes,
                  fresh + (step.run_begin[r] + p - run.start) * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
}

// y = wo_b · concat over groups of (wo_a[g] · o[g]); o [T, heads, width].
void OutputProjection(const Step& step, const AttentionWeights& weights, const Bf16* o, Bf16* y) {
  const ModelConfig& config = step.config;
  const int64_t num_rows = step.num_rows();
  const int64_t o_width = int64_t{config.num_heads} * config.head_dim;
  const int64_t group_width = o_width / config.o_groups;
  const int64_t low_rank = int64_t{config.o_groups} * config.o_lora_rank;
  Bf16* low = step.workspace.Take<Bf16>(num_rows * low_rank);
  for (int64_t g = 0; g < config.o_groups; ++g) {
    const Workspace::Scope scope(step.workspace);
    // Not quantised: wo_a is dequantised to bf16 instead.
    const PreparedRows rows = step.ops.Prepare(o + g * group_width, num_rows, group_width, o_width,
                                               ActivationSpec{}, step.workspace);
    step.ops.LinearSlice(rows, weights.wo_a, g * config.o_lora_rank, (g + 1) * config.o_lora_rank,
                         low + g * config.o_lora_rank, low_rank);
  }
  SublayerInput input(step, low, num_rows, low_rank);
  step.ops.Linear(input.For(weights.wo_b), weights.wo_b, y);
}

}  // namespace

void Attention(const Step& step, const AttentionWeights& weights, int32_t block, const Bf16* x,
               Bf16* y) {
  const Workspace::Scope scope(step.workspace);
  const ModelConfig& config = step.config;
  const int64_t num_rows = step.num_rows();
  SublayerInput input(step, x, num_rows, config.hidden_size);

  Bf16* qr = step.workspace.Take<Bf16>(num_rows * config.q_lora_rank);
  step.ops.Linear(input.For(weights.wq_a), weights.wq_a, qr);
  step.ops.RmsNorm(qr, weights.q_norm.data(), num_rows, config.q_lora_rank, config.norm_eps, qr);
  SublayerInput qr_input(step, qr, num_rows, config.q_lora_rank);

  Bf16* q = step.workspace.Take<Bf16>(num_rows * config.num_heads * config.head_dim);
  step.ops.Linear(qr_input.For(weights.wq_b), weights.wq_b, q);
  step.ops.RmsNorm(q, nullptr, num_rows * config.num_heads, config.head_dim, config.norm_eps, q);
  step.ops.Rope(q, num_rows, config.num_heads, config.head_dim, step.rope(weights.ratio),
                /*inverse=*/false);
  step.Tap(block, "q", DType::kBF16, {num_rows, config.num_heads, config.head_dim}, q);

  const std::byte* fresh = WindowRows(step, weights, block, input);
  Selection selection;
  if (weights.ratio > 0) AppendEntries(step, weights, block, input);
  if (weights.ratio == 4) {
    selection = SelectEntries(step, weights.indexer, block, qr_input, input);
  }
  Attend(step, weights, block, fresh, selection, q);
  step.ops.Rope(q, num_rows, config.num_heads, config.head_dim, step.rope(weights.ratio),
                /*inverse=*/true);
  step.Tap(block, "o", DType::kBF16, {num_rows, config.num_heads, config.head_dim}, q);
  OutputProjection(step, weights, q, y);
  AdvanceWindows(step, block, fresh);
}

}  // namespace dsv4::model
