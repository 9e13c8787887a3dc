// Byte pair encoding of one piece: from single bytes, the adjacent pair with the lowest merge rank
// is joined (the leftmost among equals), until no pair can be.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace dsv4 {

class BytePairs {
 public:
  // Ids and ranks must be below this.
  static constexpr int32_t kMaxIds = 1 << 21;

  struct Merge {
    int32_t left;
    int32_t right;
    int32_t product;
  };

  BytePairs() = default;
  // byte_ids[b] is the token of byte b alone.
  explicit BytePairs(const std::array<int32_t, 256>& byte_ids) : byte_ids_(byte_ids) {}

  // Takes the merges, the first having the lowest rank. Called once. Returns the index of the first
  // merge whose pair an earlier one has too, if any.
  std::optional<size_t> SetMerges(std::span<const Merge> merges);

  // Appends the ids of `piece`. O(n log n) for any piece; any number of threads at once.
  void Encode(std::string_view piece, std::vector<int32_t>& ids) const;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static constexpr uint32_t kNoRank = ~uint32_t{0};

  size_t SlotOf(uint64_t pair) const {
    return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> shift_);
  }
  // The rank of the merge of the two, or kNoRank.
  uint32_t RankOf(int32_t left, int32_t right) const;
  void EncodeShort(std::string_view piece, std::vector<int32_t>& ids) const;
  void EncodeLong(std::string_view piece, std::vector<int32_t>& ids) const;

  std::array<int32_t, 256> byte_ids_{};
  std::vector<int32_t> products_;  // by rank
  // Open addressing, at most half full: left id, right id and rank, 21 bits each, or kEmpty.
  std::vector<uint64_t> table_ = {kEmpty};
  int shift_ = 63;
};

}  // namespace dsv4
