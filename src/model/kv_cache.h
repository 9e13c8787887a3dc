// Where sequences keep what attention needs (design: memory). Two arenas:
// * slots: one per live sequence, fixed size: per layer the window ring and the compressors'
// carried
//   rows. A copy of a slot's bytes is an exact snapshot of everything but the entries.
// * pages: entries of 128 tokens for all layers: 32 of each ratio-4 layer (with their index keys),
// one
//   of each ratio-128 layer. A page whose tokens are all written never changes again.
// Both are reserved at creation and touched on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "tensor/buffer.h"
#include "tensor/kv_row.h"

namespace dsv4::model {

// Sizes and offsets, a function of the configuration alone.
class KvLayout {
 public:
  static constexpr int64_t kPageTokens = 128;

  // Carried raw rows of one compressor, fp32: a ring of num_rows rows, row of position p at
  // p mod num_rows; kv first, then score, each [num_rows, row_width].
  struct Carry {
    int32_t num_rows = 0;  // 2 * ratio with overlap, else ratio
    int32_t row_width = 0;
    int64_t offset = 0;  // of kv, in the slot
    int64_t score_offset() const { return offset + int64_t{4} * num_rows * row_width; }
    int64_t bytes() const { return int64_t{8} * num_rows * row_width; }
  };
  struct Block {
    int32_t ratio = 0;
    int64_t window_offset =
        0;              // in the slot: [window_size] KV rows, position p at p mod window_size
    Carry carry;        // ratio > 0
    Carry index_carry;  // ratio 4
    int64_t entries_offset = 0;        // in the page: [kPageTokens / ratio] KV rows
    int64_t index_entries_offset = 0;  // in the page: [kPageTokens / ratio] index rows
  };

  explicit KvLayout(const ModelConfig& config);

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  const Block& block(int32_t i) const { return blocks_[static_cast<size_t>(i)]; }
  KvRowLayout row() const { return row_; }
  IndexRowLayout index_row() const { return index_row_; }
  int32_t window_size() const { return window_size_; }
  // Tokens that a sequence may have.
  int64_t max_positions() const { return max_positions_; }
  int64_t slot_bytes() const { return slot_bytes_; }
  // 0 where no layer compresses.
  int64_t page_bytes() const { return page_bytes_; }
  // Pages that `num_tokens` tokens of a sequence need.
  static int64_t PagesFor(int64_t num_tokens) {
    return (num_tokens + kPageTokens - 1) / kPageTokens;
  }

 private:
  std::vector<Block> blocks_;
  KvRowLayout row_;
  IndexRowLayout index_row_;
  int32_t window_size_ = 0;
  int64_t max_positions_ = 0;
  int64_t slot_bytes_ = 0;
  int64_t page_bytes_ = 0;
};

class KvCache {
 public:
  static Result<KvCache> Create(const ModelConfig& config, int32_t num_slots, int32_t num_pages);

  const KvLayout& layout() const { return layout_; }
  int32_t num_slots() const { return num_slots_; }
  int32_t num_pages() const { return num_pages_; }
  // The bytes of one slot or page. Contents of a slot are undefined until a run at position 0 used
  // it; nothing needs clearing, since a run reads only what earlier runs of its sequence wrote.
  std::span<std::byte> slot(int32_t index);
  std::span<std::byte> page(int32_t index);

  // Gives a slot and pages (as in SequenceRun) random contents of the form that `num_tokens` tokens
  // would have left there, so that a step at a far position can be measured or tested without
  // computing all before it: finite values, rows as the model packs them, keys of index entries
  // that differ. What stands for a position depends on it, the block and the seed alone. An error
  // where the model has no such position.
  Status FillSynthetic(int32_t slot, std::span<const int32_t> pages, int64_t num_tokens,
                       uint64_t seed);

 private:
  KvCache(KvLayout layout, int32_t num_slots, int32_t num_pages, Buffer arena);

  KvLayout layout_;
  int32_t num_slots_ = 0;
  int32_t num_pages_ = 0;
  Buffer arena_;  // slots, then pages
};

}  // namespace dsv4::model
