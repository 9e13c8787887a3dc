#include "model/indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "model/compressor.h"

namespace dsv4::model {
namespace {

int64_t EntriesSeen(const Step& step, int64_t row, int32_t ratio) {
  return (step.positions[static_cast<size_t>(row)] + 1) / ratio;
}

// index_score [T, n] with -inf and index_sel [T, min(top_k, n)] with -1 where nothing is allowed.
void TapSelection(const Step& step, int32_t block, std::span<const IndexRow> rows, int64_t most) {
  const int64_t num_rows = step.num_rows();
  const int64_t width = std::min<int64_t>(step.config.index_topk, most);
  std::vector<float> scores(static_cast<size_t>(num_rows * most),
                            -std::numeric_limits<float>::infinity());
  std::vector<int32_t> selected(static_cast<size_t>(num_rows * width), -1);
  for (int64_t t = 0; t < num_rows; ++t) {
    const IndexRow& row = rows[static_cast<size_t>(t)];
    if (row.scores != nullptr) {
      std::copy_n(row.scores, row.num_entries, scores.begin() + t * most);
    }
    std::copy_n(row.selected, std::min<int64_t>(row.num_entries, width),
                selected.begin() + t * width);
  }
  step.Tap(block, "index_score", DType::kF32, {num_rows, most}, scores.data());
  step.Tap(block, "index_sel", DType::kI32, {num_rows, width}, selected.data());
}

// Index queries: rotary, Hadamard and FP4, [T, heads] packed rows.
const std::byte* IndexQueries(const Step& step, const IndexerWeights& weights, int32_t block,
                              SublayerInput& qr) {
  const ModelConfig& config = step.config;
  const int64_t heads = config.index_num_heads;
  const IndexRowLayout layout{config.index_head_dim};
  const int64_t num_heads = step.num_rows() * heads;
  Bf16* q = step.workspace.Take<Bf16>(num_heads * layout.width);
  step.ops.Linear(qr.For(weights.wq_b), weights.wq_b, q);
  step.ops.Rope(q, step.num_rows(), config.index_num_heads, layout.width, step.compressed_rope,
                /*inverse=*/false);
  step.ops.Hadamard(q, num_heads, layout.width);
  std::byte* packed = step.workspace.TakeBytes(num_heads * layout.row_bytes());
  step.ops.PackIndexRows(q, num_heads, layout, packed);
  if (step.Wants(block, "index_q")) {
    step.ops.UnpackIndexRows(packed, num_heads, layout, q);
    step.Tap(block, "index_q", DType::kBF16, {step.num_rows(), heads, layout.width}, q);
  }
  return packed;
}

// weights_proj · x * (width^-1/2 * heads^-1/2), [T, heads], not rounded.
const float* HeadWeights(const Step& step, const IndexerWeights& weights, SublayerInput& x) {
  const int64_t count = step.num_rows() * step.config.index_num_heads;
  const float scale = static_cast<float>(1.0 / std::sqrt(double{1} * step.config.index_head_dim) /
                                         std::sqrt(double{1} * step.config.index_num_heads));
  float* w = step.workspace.Take<float>(count);
  step.ops.LinearF32(x.For(weights.weights_proj), weights.weights_proj, w);
  for (int64_t i = 0; i < count; ++i) w[i] *= scale;
  return w;
}

void AppendKeys(const Step& step, const IndexerWeights& weights, int32_t block, SublayerInput& x) {
  const KvLayout::Block& layout = step.cache.layout().block(block);
  const IndexRowLayout row = step.cache.layout().index_row();
  const NewEntries keys = Compress(step, weights.compressor, layout.index_carry, x);
  step.ops.Hadamard(keys.values, keys.count, row.width);
  std::byte* packed = step.workspace.TakeBytes(keys.count * row.row_bytes());
  step.ops.PackIndexRows(keys.values, keys.count, row, packed);
  StoreEntries(step, keys, weights.compressor.ratio, layout.index_entries_offset, row.row_bytes(),
               packed);
  if (step.Wants(block, "index.entries")) {
    step.ops.UnpackIndexRows(packed, keys.count, row, keys.values);
    step.Tap(block, "index.entries", DType::kBF16, {keys.count, row.width}, keys.values);
  }
}

}  // namespace

std::span<const std::byte* const*> PagePointers(const Step& step, int64_t offset_in_page) {
  const size_t num_runs = step.batch.runs.size();
  const std::byte* const** result =
      step.workspace.Take<const std::byte* const*>(static_cast<int64_t>(num_runs));
  for (size_t r = 0; r < num_runs; ++r) {
    const SequenceRun& run = step.batch.runs[r];
    const int64_t count = KvLayout::PagesFor(run.start + run.num_rows);
    const std::byte** pages = step.workspace.Take<const std::byte*>(count);
    for (int64_t i = 0; i < count; ++i) {
      pages[i] = step.cache.page(run.pages[static_cast<size_t>(i)]).data() + offset_in_page;
    }
    result[r] = pages;
  }
  return {result, num_runs};
}

Selection SelectEntries(const Step& step, const IndexerWeights& weights, int32_t block,
                        SublayerInput& qr, SublayerInput& x) {
  const int32_t ratio = weights.compressor.ratio;
  const int64_t num_rows = step.num_rows();
  AppendKeys(step, weights, block, x);

  IndexSelectArgs args;
  args.q = IndexQueries(step, weights, block, qr);
  args.weights = HeadWeights(step, weights, x);
  args.num_heads = step.config.index_num_heads;
  args.layout = step.cache.layout().index_row();
  args.entries_per_page = static_cast<int32_t>(KvLayout::kPageTokens / ratio);
  args.top_k = step.config.index_topk;

  const std::span<const std::byte* const*> pages =
      PagePointers(step, step.cache.layout().block(block).index_entries_offset);
  IndexRow* rows = step.workspace.Take<IndexRow>(num_rows);
  Selection::Row* result = step.workspace.Take<Selection::Row>(num_rows);
  int64_t most = 0;
  for (int64_t t = 0; t < num_rows; ++t) most = std::max(most, EntriesSeen(step, t, ratio));
  std::vector<float> tapped;
  if (step.Wants(block, "index_score")) tapped.resize(static_cast<size_t>(num_rows * most));
  size_t run = 0;
  for (int64_t t = 0; t < num_rows; ++t) {
    while (run + 1 < pages.size() && t >= step.run_begin[run + 1]) ++run;
    const int64_t seen = EntriesSeen(step, t, ratio);
    const int64_t count = std::min<int64_t>(seen, args.top_k);
    int32_t* indices = step.workspace.Take<int32_t>(count);
    rows[t] = {pages[run], seen, indices, tapped.empty() ? nullptr : tapped.data() + t * most};
    result[t] = {indices, count};
  }
  args.rows = {rows, static_cast<size_t>(num_rows)};
  step.ops.IndexSelect(args, step.workspace);
  if (step.taps != nullptr) TapSelection(step, block, args.rows, most);
  return {{result, static_cast<size_t>(num_rows)}};
}

}  // namespace dsv4::model
