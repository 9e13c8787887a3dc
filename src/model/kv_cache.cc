#include "model/kv_cache.h"

#include "base/check.h"

namespace dsv4::model {
namespace {

constexpr int64_t kAlignment = 64;

// Takes `bytes` at the end of a region of *size bytes, aligned; returns the offset.
int64_t Append(int64_t* size, int64_t bytes) {
  const int64_t offset = (*size + kAlignment - 1) / kAlignment * kAlignment;
  *size = offset + bytes;
  return offset;
}

KvLayout::Carry MakeCarry(int32_t ratio, int32_t width, int64_t* slot_bytes) {
  const bool overlap = ratio == 4;
  KvLayout::Carry carry;
  carry.num_rows = overlap ? 2 * ratio : ratio;
  carry.row_width = overlap ? 2 * width : width;
  carry.offset = Append(slot_bytes, carry.bytes());
  return carry;
}

}  // namespace

KvLayout::KvLayout(const ModelConfig& config)
    : row_{config.head_dim, config.rope_head_dim, true},
      index_row_{config.index_head_dim},
      window_size_(config.window_size),
      max_positions_(config.max_positions) {
  for (int32_t i = 0; i < config.num_blocks(); ++i) {
    Block block;
    block.ratio = config.compress_ratios[static_cast<size_t>(i)];
    block.window_offset = Append(&slot_bytes_, row_.row_bytes() * window_size_);
    if (block.ratio > 0) {
      const int64_t entries = kPageTokens / block.ratio;
      block.carry = MakeCarry(block.ratio, config.head_dim, &slot_bytes_);
      block.entries_offset = Append(&page_bytes_, entries * row_.row_bytes());
      if (block.ratio == 4) {
        block.index_carry = MakeCarry(block.ratio, config.index_head_dim, &slot_bytes_);
        block.index_entries_offset = Append(&page_bytes_, entries * index_row_.row_bytes());
      }
    }
    blocks_.push_back(block);
  }
  Append(&slot_bytes_, 0);
  Append(&page_bytes_, 0);
}

KvCache::KvCache(KvLayout layout, int32_t num_slots, int32_t num_pages, Buffer arena)
    : layout_(std::move(layout)),
      num_slots_(num_slots),
      num_pages_(num_pages),
      arena_(std::move(arena)) {}

Result<KvCache> KvCache::Create(const ModelConfig& config, int32_t num_slots, int32_t num_pages) {
  DSV4_CHECK(num_slots >= 0 && num_pages >= 0, "{} slots, {} pages", num_slots, num_pages);
  KvLayout layout(config);
  DSV4_ASSIGN(Buffer arena,
              Buffer::Reserve(layout.slot_bytes() * num_slots + layout.page_bytes() * num_pages,
                              "KV cache"));
  return KvCache(std::move(layout), num_slots, num_pages, std::move(arena));
}

std::span<std::byte> KvCache::slot(int32_t index) {
  DSV4_CHECK(index >= 0 && index < num_slots_, "slot {} of {}", index, num_slots_);
  return {arena_.data() + layout_.slot_bytes() * index, static_cast<size_t>(layout_.slot_bytes())};
}

std::span<std::byte> KvCache::page(int32_t index) {
  DSV4_CHECK(index >= 0 && index < num_pages_, "page {} of {}", index, num_pages_);
  return {arena_.data() + layout_.slot_bytes() * num_slots_ + layout_.page_bytes() * index,
          static_cast<size_t>(layout_.page_bytes())};
}

}  // namespace dsv4::model
