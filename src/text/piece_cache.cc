#include "text/piece_cache.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace dsv4 {
namespace {

constexpr size_t kMaxSlots = size_t{1} << 14;  // 1 MiB

}  // namespace

static_assert(sizeof(PieceCache::Slot) == 64);

PieceCache::PieceCache(size_t text_bytes)
    : slots_(std::clamp(std::bit_floor(text_bytes / sizeof(Slot) + 1), size_t{1}, kMaxSlots)) {}

PieceCache::Slot& PieceCache::SlotOf(std::string_view piece) {
  return slots_[std::hash<std::string_view>{}(piece) & (slots_.size() - 1)];
}

void PieceCache::Slot::Set(std::string_view piece, std::span<const int32_t> ids) {
  if (piece.size() > bytes_.size() || ids.size() > ids_.size()) return;
  num_bytes_ = static_cast<uint8_t>(piece.size());
  num_ids_ = static_cast<uint8_t>(ids.size());
  std::copy(piece.begin(), piece.end(), bytes_.begin());
  std::copy(ids.begin(), ids.end(), ids_.begin());
}

}  // namespace dsv4
