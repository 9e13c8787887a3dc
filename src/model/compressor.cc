#include "model/compressor.h"

#include <algorithm>
#include <cstring>

#include "model/rope_table.h"

namespace dsv4::model {
namespace {

// Where a compressor's raw rows lie during a step: this step's in scratch, older ones carried.
struct RawRows {
  const float* fresh = nullptr;    // [T, row_width]
  const float* carried = nullptr;  // [num_rows, row_width] of one sequence
};

const float* RowAt(const RawRows& rows, const KvLayout::Carry& carry, const SequenceRun& run,
                   int64_t run_begin, int64_t position) {
  return position >= run.start ? rows.fresh + (run_begin + position - run.start) * carry.row_width
                               : rows.carried + position % carry.num_rows * carry.row_width;
}

// The raw rows that entry `entry` pools: with overlap the previous block's first half of channels,
// then the current block's second half; without, its block.
PoolRow RowsOfEntry(const Step& step, const CompressorWeights& weights,
                    const KvLayout::Carry& carry, size_t run_index, int64_t entry,
                    const float* fresh_kv, const float* fresh_score) {
  const SequenceRun& run = step.batch.runs[run_index];
  const int64_t run_begin = step.run_begin[run_index];
  const std::byte* slot = step.cache.slot(run.slot).data();
  const RawRows kv{fresh_kv, reinterpret_cast<const float*>(slot + carry.offset)};
  const RawRows score{fresh_score, reinterpret_cast<const float*>(slot + carry.score_offset())};
  const int64_t begin = entry * weights.ratio;
  const int64_t from = weights.overlap() ? std::max<int64_t>(begin - weights.ratio, 0) : begin;
  const int64_t end = begin + weights.ratio;
  const float** kv_rows = step.workspace.Take<const float*>(end - from);
  const float** score_rows = step.workspace.Take<const float*>(end - from);
  for (int64_t p = from; p < end; ++p) {
    const int64_t channel = weights.overlap() && p >= begin ? weights.width : 0;
    kv_rows[p - from] = RowAt(kv, carry, run, run_begin, p) + channel;
    score_rows[p - from] = RowAt(score, carry, run, run_begin, p) + channel;
  }
  return {kv_rows, score_rows, static_cast<int32_t>(end - from)};
}

void CarryRows(const Step& step, const KvLayout::Carry& carry, const float* kv,
               const float* score) {
  const size_t row_bytes = static_cast<size_t>(carry.row_width) * sizeof(float);
  for (size_t r = 0; r < step.batch.runs.size(); ++r) {
    const SequenceRun& run = step.batch.runs[r];
    std::byte* slot = step.cache.slot(run.slot).data();
    const int64_t end = run.start + run.num_rows;
    for (int64_t p = std::max(run.start, end - carry.num_rows); p < end; ++p) {
      const int64_t row = (step.run_begin[r] + p - run.start) * carry.row_width;
      const int64_t place = p % carry.num_rows * static_cast<int64_t>(row_bytes);
      std::memcpy(slot + carry.offset + place, kv + row, row_bytes);
      std::memcpy(slot + carry.score_offset() + place, score + row, row_bytes);
    }
  }
}

// Angles of the entries' first tokens.
RopeTable EntryAngles(const Step& step, const NewEntries& entries, int32_t ratio) {
  const int64_t half = step.config.rope_head_dim / 2;
  float* cos = step.workspace.Take<float>(entries.count * half);
  float* sin = step.workspace.Take<float>(entries.count * half);
  for (size_t r = 0; r < entries.run_begin.size(); ++r) {
    for (int64_t e = entries.run_begin[r]; e < entries.run_end(r); ++e) {
      const int64_t position = (entries.first_entry[r] + e - entries.run_begin[r]) * ratio;
      RopeAngles(step.compressed_frequencies, position, cos + e * half, sin + e * half);
    }
  }
  return {cos, sin, step.config.rope_head_dim};
}

}  // namespace

NewEntries Compress(const Step& step, const CompressorWeights& weights,
                    const KvLayout::Carry& carry, SublayerInput& x) {
  Workspace& workspace = step.workspace;
  const size_t num_runs = step.batch.runs.size();
  float* kv = workspace.Take<float>(step.num_rows() * carry.row_width);
  float* score = workspace.Take<float>(step.num_rows() * carry.row_width);
  step.ops.LinearF32(x.For(weights.wkv), weights.wkv, kv);
  step.ops.LinearF32(x.For(weights.wgate), weights.wgate, score);
  step.ops.AddPeriodic(score, carry.row_width, step.positions, weights.ape.data(), weights.ratio);

  NewEntries entries;
  int64_t* run_begin = workspace.Take<int64_t>(static_cast<int64_t>(num_runs));
  int64_t* first_entry = workspace.Take<int64_t>(static_cast<int64_t>(num_runs));
  for (size_t r = 0; r < num_runs; ++r) {
    const SequenceRun& run = step.batch.runs[r];
    run_begin[r] = entries.count;
    first_entry[r] = run.start / weights.ratio;
    entries.count += (run.start + run.num_rows) / weights.ratio - first_entry[r];
  }
  entries.run_begin = {run_begin, num_runs};
  entries.first_entry = {first_entry, num_runs};
  entries.values = workspace.Take<Bf16>(entries.count * weights.width);

  if (entries.count > 0) {
    PoolRow* rows = workspace.Take<PoolRow>(entries.count);
    for (size_t r = 0; r < num_runs; ++r) {
      for (int64_t e = run_begin[r]; e < entries.run_end(r); ++e) {
        rows[e] =
            RowsOfEntry(step, weights, carry, r, first_entry[r] + e - run_begin[r], kv, score);
      }
    }
    step.ops.Pool({rows, static_cast<size_t>(entries.count)}, weights.width, entries.values);
    step.ops.RmsNorm(entries.values, weights.norm.data(), entries.count, weights.width,
                     step.config.norm_eps, entries.values);
    step.ops.Rope(entries.values, entries.count, 1, weights.width,
                  EntryAngles(step, entries, weights.ratio), /*inverse=*/false);
  }
  CarryRows(step, carry, kv, score);
  return entries;
}

void StoreEntries(const Step& step, const NewEntries& entries, int32_t ratio,
                  int64_t offset_in_page, int64_t row_bytes, const std::byte* packed) {
  const int64_t per_page = KvLayout::kPageTokens / ratio;
  for (size_t r = 0; r < entries.run_begin.size(); ++r) {
    const std::span<const int32_t> pages = step.batch.runs[r].pages;
    for (int64_t e = entries.run_begin[r]; e < entries.run_end(r); ++e) {
      const int64_t entry = entries.first_entry[r] + e - entries.run_begin[r];
      std::byte* page = step.cache.page(pages[static_cast<size_t>(entry / per_page)]).data();
      std::memcpy(page + offset_in_page + entry % per_page * row_bytes, packed + e * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace dsv4::model
