#include "text/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "base/check.h"

namespace dsv4 {
namespace {

constexpr int kIdBits = 21;
// Up to this many bytes, looking through all pairs for the best one beats keeping a heap.
constexpr size_t kMaxShort = 48;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << kIdBits | static_cast<uint64_t>(right);
}

}  // namespace

std::optional<size_t> BytePairs::SetMerges(std::span<const Merge> merges) {
  DSV4_CHECK(products_.empty() && merges.size() < kMaxIds, "{} merges", merges.size());
  const size_t num_slots = std::bit_ceil(std::max<size_t>(2, 2 * merges.size()));
  table_.assign(num_slots, kEmpty);
  shift_ = 64 - std::countr_zero(num_slots);
  products_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    const uint64_t pair = PairKey(merge.left, merge.right);
    size_t slot = SlotOf(pair);
    for (; table_[slot] != kEmpty; slot = (slot + 1) & (num_slots - 1)) {
      if (table_[slot] >> kIdBits == pair) return rank;
    }
    table_[slot] = pair << kIdBits | rank;
    products_.push_back(merge.product);
  }
  return std::nullopt;
}

uint32_t BytePairs::RankOf(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  for (size_t slot = SlotOf(pair);; slot = (slot + 1) & (table_.size() - 1)) {
    const uint64_t found = table_[slot];
    if (found >> kIdBits == pair) return static_cast<uint32_t>(found & (kMaxIds - 1));
    if (found == kEmpty) return kNoRank;
  }
}

void BytePairs::Encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() <= kMaxShort) {
    EncodeShort(piece, ids);
  } else {
    EncodeLong(piece, ids);
  }
}

void BytePairs::EncodeShort(std::string_view piece, std::vector<int32_t>& ids) const {
  int32_t part[kMaxShort];
  uint32_t rank[kMaxShort];  // rank[i]: of the pair of parts i and i + 1
  size_t num_parts = piece.size();
  if (num_parts == 0) return;
  for (size_t i = 0; i < num_parts; ++i) part[i] = byte_ids_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < num_parts; ++i) rank[i] = RankOf(part[i], part[i + 1]);
  while (num_parts > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < num_parts; ++i) {
      if (rank[i] < rank[best]) best = i;
    }
    if (rank[best] == kNoRank) break;
    part[best] = products_[rank[best]];
    std::copy(part + best + 2, part + num_parts, part + best + 1);
    std::copy(rank + best + 1, rank + num_parts - 1, rank + best);
    --num_parts;
    if (best > 0) rank[best - 1] = RankOf(part[best - 1], part[best]);
    if (best + 1 < num_parts) rank[best] = RankOf(part[best], part[best + 1]);
  }
  ids.insert(ids.end(), part, part + num_parts);
}

void BytePairs::EncodeLong(std::string_view piece, std::vector<int32_t>& ids) const {
  const size_t size = piece.size();
  struct Part {
    int32_t id;
    uint32_t rank;  // of the pair with the next part; kNoRank too where this part was merged away
    size_t previous, next;
  };
  constexpr int kPositionBits = 64 - kIdBits;
  DSV4_CHECK(size < size_t{1} << kPositionBits, "a piece of {} bytes", size);
  std::vector<Part> parts(size);
  // Rank in the high bits, position in the low: the lowest rank first, then the leftmost. Entries
  // whose pair has since changed are passed over when they come up.
  std::vector<uint64_t> heap;
  const auto rank_of_next = [&](size_t i) {
    return parts[i].next == size ? kNoRank : RankOf(parts[i].id, parts[parts[i].next].id);
  };
  for (size_t i = 0; i < size; ++i) {
    parts[i] = {byte_ids_[static_cast<uint8_t>(piece[i])], kNoRank, i - 1, i + 1};
  }
  for (size_t i = 0; i < size; ++i) {
    parts[i].rank = rank_of_next(i);
    if (parts[i].rank != kNoRank) heap.push_back(uint64_t{parts[i].rank} << kPositionBits | i);
  }
  std::priority_queue queue(std::greater<uint64_t>{}, std::move(heap));
  const auto renew = [&](size_t i) {
    parts[i].rank = rank_of_next(i);
    if (parts[i].rank != kNoRank) queue.push(uint64_t{parts[i].rank} << kPositionBits | i);
  };
  while (!queue.empty()) {
    const uint64_t entry = queue.top();
    queue.pop();
    const auto i = static_cast<size_t>(entry & ((uint64_t{1} << kPositionBits) - 1));
    if (parts[i].rank != entry >> kPositionBits) continue;
    const size_t gone = parts[i].next;
    parts[i].id = products_[parts[i].rank];
    parts[i].next = parts[gone].next;
    if (parts[i].next != size) parts[parts[i].next].previous = i;
    parts[gone].rank = kNoRank;
    renew(i);
    if (i > 0) renew(parts[i].previous);
  }
  for (size_t i = 0; i < size; i = parts[i].next) ids.push_back(parts[i].id);
}

}  // namespace dsv4
