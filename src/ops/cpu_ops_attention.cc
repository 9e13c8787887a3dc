#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu_ops_impl.h"

namespace dsv4 {
namespace {

// The rows a query attends to, oldest window row first, then its entries; returns their number.
int64_t Select(const KvSource& source, const QueryRow& row, KvRowLayout layout,
               const std::byte** rows) {
  const int64_t row_bytes = layout.row_bytes();
  int64_t count = 0;
  const int64_t oldest = std::max<int64_t>(0, row.position - source.window + 1);
  for (int64_t p = oldest; p <= row.position; ++p) {
    rows[count++] = p >= source.start ? source.fresh + (p - source.start) * row_bytes
                                      : source.ring + p % source.window * row_bytes;
  }
  for (int64_t i = 0; i < row.num_entries; ++i) {
    const int64_t entry = row.selected != nullptr ? row.selected[i] : i;
    rows[count++] = source.entry_pages[entry / source.entries_per_page] +
                    entry % source.entries_per_page * row_bytes;
  }
  return count;
}

}  // namespace

void CpuOps::Attention(const AttentionArgs& args, Workspace& workspace) {
  const int64_t num_rows = static_cast<int64_t>(args.rows.size());
  if (num_rows == 0) return;
  int64_t most = 0;
  int64_t attended = 0;
  for (const QueryRow& row : args.rows) {
    const KvSource& source = args.sources[static_cast<size_t>(row.source)];
    most = std::max(most, source.window + row.num_entries);
    attended += std::min<int64_t>(source.window, row.position + 1) + row.num_entries;
  }
  const Timed timed(profile_, OpKind::kAttention, attended * args.layout.row_bytes(),
                    4 * attended * args.num_heads * args.layout.width);
  // Few rows are split by heads, one group a thread and no more: each group decodes the rows again.
  const int64_t wanted = (num_threads() + num_rows - 1) / num_rows;
  const int32_t groups = static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, args.num_heads));
  const int32_t group_heads = (args.num_heads + groups - 1) / groups;

  const Workspace::Scope scope(workspace);
  const int64_t scratch_bytes = kernels_.sparse_attention_scratch_bytes(group_heads, args.layout);
  const std::byte** pointers = workspace.Take<const std::byte*>(most * num_threads());
  std::byte* scratch = workspace.TakeBytes((scratch_bytes + 63) / 64 * 64 * num_threads());
  pool_.For(num_rows * groups, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t task = begin; task < end; ++task) {
      const QueryRow& row = args.rows[static_cast<size_t>(task / groups)];
      const int32_t head = static_cast<int32_t>(task % groups) * group_heads;
      kernels::SparseAttentionArgs call;
      call.num_heads = std::min(group_heads, args.num_heads - head);
      if (call.num_heads <= 0) continue;
      const std::byte** rows = pointers + most * thread;
      call.num_rows = Select(args.sources[static_cast<size_t>(row.source)], row, args.layout, rows);
      call.rows = rows;
      call.layout = args.layout;
      call.output = args.q + (task / groups * args.num_heads + head) * args.layout.width;
      call.q = call.output;
      call.sink = args.sink + head;
      call.scale = args.scale;
      call.scratch = scratch + (scratch_bytes + 63) / 64 * 64 * thread;
      kernels_.sparse_attention(call);
    }
  });
}

void CpuOps::IndexSelect(const IndexSelectArgs& args, Workspace& workspace) {
  // Scores are made for as many rows at a time as fit this many floats, then chosen from.
  constexpr int64_t kScoreFloats = int64_t{1} << 22;
  const int64_t num_rows = static_cast<int64_t>(args.rows.size());
  int64_t most = 0;
  int64_t scored = 0;
  for (const IndexRow& row : args.rows) {
    most = std::max(most, row.num_entries);
    if (row.num_entries > args.top_k) scored += row.num_entries;
  }
  if (most == 0) return;
  const Timed timed(profile_, OpKind::kIndexSelect, scored * args.layout.row_bytes(),
                    2 * scored * args.num_heads * args.layout.width);
  const int64_t row_q_bytes = args.num_heads * args.layout.row_bytes();
  const int64_t rows_at_once = std::clamp<int64_t>(kScoreFloats / most, 1, num_rows);
  const int64_t tasks_per_row = (most + kIndexKeysPerClaim - 1) / kIndexKeysPerClaim;

  const Workspace::Scope scope(workspace);
  float* scores = workspace.Take<float>(rows_at_once * most);
  int32_t* scratch = workspace.Take<int32_t>(most * num_threads());
  for (int64_t first = 0; first < num_rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, num_rows - first);
    pool_.For(count * tasks_per_row, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t t = task / tasks_per_row;
        const IndexRow& row = args.rows[static_cast<size_t>(first + t)];
        // All of few entries are chosen: scores are needed only where someone looks at them.
        if (row.num_entries <= args.top_k && row.scores == nullptr) continue;
        kernels::IndexScoreArgs call;
        call.q = args.q + (first + t) * row_q_bytes;
        call.weights = args.weights + (first + t) * args.num_heads;
        call.num_heads = args.num_heads;
        call.layout = args.layout;
        call.runs = row.pages;
        call.run_length = args.entries_per_page;
        call.begin = task % tasks_per_row * kIndexKeysPerClaim;
        call.end = std::min(call.begin + kIndexKeysPerClaim, row.num_entries);
        call.scores = scores + t * most + call.begin;
        if (call.begin < call.end) kernels_.index_scores(call);
      }
    });
    pool_.For(count, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t t = begin; t < end; ++t) {
        const IndexRow& row = args.rows[static_cast<size_t>(first + t)];
        if (row.num_entries <= args.top_k) {
          for (int32_t i = 0; i < row.num_entries; ++i) row.selected[i] = i;
        } else {
          kernels_.top_k(scores + t * most, row.num_entries, args.top_k, row.selected,
                         scratch + most * thread);
        }
        if (row.scores != nullptr) {
          std::memcpy(row.scores, scores + t * most,
                      static_cast<size_t>(row.num_entries) * sizeof(float));
        }
      }
    });
  }
}

void CpuOps::Pool(std::span<const PoolRow> rows, int32_t width, Bf16* entries) {
  if (rows.empty()) return;
  const Timed timed(profile_, OpKind::kPool);
  const int64_t work = int64_t{rows[0].num_rows} * width * 8;
  ForRows(static_cast<int64_t>(rows.size()), work, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const PoolRow& row = rows[static_cast<size_t>(i)];
      kernels_.pool({row.kv, row.score, row.num_rows, width, entries + i * width});
    }
  });
}

}  // namespace dsv4
