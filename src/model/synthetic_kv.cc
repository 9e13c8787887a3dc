#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/mix.h"
#include "model/kv_cache.h"

namespace dsv4::model {
namespace {

enum class Content : uint8_t { kWindow, kEntry, kIndexEntry, kCarry, kIndexCarry };

// Random words for one row.
class Words {
 public:
  Words(uint64_t seed, int32_t block, Content content, int64_t row) {
    const uint64_t kind = static_cast<uint64_t>(block) << 8 | static_cast<uint64_t>(content);
    state_ = Mix64(Mix64(Mix64(seed + kMixStep) + kind) + static_cast<uint64_t>(row));
  }
  uint64_t Next() { return Mix64(state_ += kMixStep); }
  // (word & keep) | set, in groups of eight bytes, over `bytes`.
  void Fill(std::byte* out, int64_t bytes, uint64_t keep, uint64_t set) {
    for (int64_t i = 0; i < bytes; i += 8) {
      const uint64_t word = (Next() & keep) | set;
      std::memcpy(out + i, &word, static_cast<size_t>(std::min<int64_t>(bytes - i, 8)));
    }
  }

 private:
  uint64_t state_;
};

// Every block has its largest code where it needs just the scale it has.
void FillKvRow(Words words, KvRowLayout layout, std::byte* row) {
  DSV4_CHECK(layout.packed, "rows of bf16");
  constexpr std::byte kLargest{0x7C};  // 384
  // Codes of even exponents: 240 at most, and never NaN.
  words.Fill(row, layout.num_codes(), 0xF7F7F7F7F7F7F7F7u, 0);
  // bf16 of magnitude 1/2 to 2.
  words.Fill(row + layout.rope_offset(), 2 * layout.rope_width, 0x80FF80FF80FF80FFu,
             0x3F003F003F003F00u);
  // 2^-9 to 2^-6: blocks whose largest value is 0.75 to 6.
  std::byte* const scales = row + layout.scale_offset();
  const int64_t num_scales = layout.num_codes() / KvRowLayout::kBlock;
  const uint64_t exponents = words.Next();
  std::fill(scales, row + layout.row_bytes(), std::byte{0});
  for (int64_t i = 0; i < num_scales; ++i) {
    row[i * KvRowLayout::kBlock] = kLargest;
    scales[i] = static_cast<std::byte>(118 + (exponents >> (2 * (i % 32)) & 3));
  }
}

void FillIndexRow(Words words, IndexRowLayout layout, std::byte* row) {
  words.Fill(row, layout.width / 2, ~uint64_t{0}, 0);
  // A scale of 1/2 for each block, whose first code is the largest, 6.
  for (int64_t i = 0; i < layout.width / IndexRowLayout::kBlock; ++i) {
    std::byte& first = row[i * IndexRowLayout::kBlock / 2];
    first = (first & std::byte{0xF0}) | std::byte{0x07};
    row[layout.scale_offset() + i] = std::byte{126};
  }
}

class Filler {
 public:
  Filler(const KvLayout& layout, uint64_t seed, int64_t num_tokens)
      : layout_(layout), seed_(seed), num_tokens_(num_tokens) {}

  void FillSlot(std::span<std::byte> slot) const {
    const KvRowLayout row = layout_.row();
    for (int32_t i = 0; i < layout_.num_blocks(); ++i) {
      const KvLayout::Block& block = layout_.block(i);
      const int64_t window = layout_.window_size();
      for (int64_t p = std::max<int64_t>(num_tokens_ - window, 0); p < num_tokens_; ++p) {
        FillKvRow({seed_, i, Content::kWindow, p}, row,
                  slot.data() + block.window_offset + p % window * row.row_bytes());
      }
      if (block.ratio > 0) FillCarry(i, Content::kCarry, block.carry, slot);
      if (block.ratio == 4) FillCarry(i, Content::kIndexCarry, block.index_carry, slot);
    }
  }

  // The entries of tokens [128 index, 128 (index + 1)) that are complete.
  void FillPage(int64_t index, std::span<std::byte> page) const {
    const KvRowLayout row = layout_.row();
    const IndexRowLayout key = layout_.index_row();
    for (int32_t i = 0; i < layout_.num_blocks(); ++i) {
      const KvLayout::Block& block = layout_.block(i);
      if (block.ratio == 0) continue;
      const int64_t per_page = KvLayout::kPageTokens / block.ratio;
      const int64_t first = index * per_page;
      const int64_t end = std::min(first + per_page, num_tokens_ / block.ratio);
      for (int64_t e = first; e < end; ++e) {
        FillKvRow({seed_, i, Content::kEntry, e}, row,
                  page.data() + block.entries_offset + (e - first) * row.row_bytes());
        if (block.ratio != 4) continue;
        FillIndexRow({seed_, i, Content::kIndexEntry, e}, key,
                     page.data() + block.index_entries_offset + (e - first) * key.row_bytes());
      }
    }
  }

 private:
  void FillCarry(int32_t i, Content content, const KvLayout::Carry& carry,
                 std::span<std::byte> slot) const {
    const int64_t row_bytes = int64_t{4} * carry.row_width;
    for (int64_t p = std::max<int64_t>(num_tokens_ - carry.num_rows, 0); p < num_tokens_; ++p) {
      Words words(seed_, i, content, p);
      for (const int64_t offset : {carry.offset, carry.score_offset()}) {
        // fp32 of magnitude 1 to 2.
        words.Fill(slot.data() + offset + p % carry.num_rows * row_bytes, row_bytes,
                   0x807FFFFF807FFFFFu, 0x3F8000003F800000u);
      }
    }
  }

  const KvLayout& layout_;
  const uint64_t seed_;
  const int64_t num_tokens_;
};

}  // namespace

Status KvCache::FillSynthetic(int32_t slot_index, std::span<const int32_t> pages,
                              int64_t num_tokens, uint64_t seed) {
  if (num_tokens < 0 || num_tokens > layout_.max_positions()) {
    return DoesNotFit("a context of {} tokens is more than the model's {}", num_tokens,
                      layout_.max_positions());
  }
  const int64_t num_pages = layout_.page_bytes() == 0 ? 0 : KvLayout::PagesFor(num_tokens);
  DSV4_CHECK(static_cast<int64_t>(pages.size()) >= num_pages, "{} pages for {} tokens",
             pages.size(), num_tokens);
  const Filler filler(layout_, seed, num_tokens);
  filler.FillSlot(slot(slot_index));
  for (int64_t i = 0; i < num_pages; ++i) {
    filler.FillPage(i, page(pages[static_cast<size_t>(i)]));
  }
  return {};
}

}  // namespace dsv4::model
