// Remembers the ids of short pieces while one text is encoded: words come again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace dsv4 {

class PieceCache {
 public:
  // Sized for a text of so many bytes: no larger than the text, and bounded.
  explicit PieceCache(size_t text_bytes);

  // One place for a piece, which a later piece may take over.
  class Slot {
   public:
    bool Holds(std::string_view piece) const {
      return piece.size() == num_bytes_ && piece == std::string_view(bytes_.data(), num_bytes_);
    }
    std::span<const int32_t> ids() const { return {ids_.data(), num_ids_}; }
    // Does nothing where it does not fit.
    void Set(std::string_view piece, std::span<const int32_t> ids);

   private:
    uint8_t num_bytes_ = 0;
    uint8_t num_ids_ = 0;
    std::array<char, 26> bytes_;
    std::array<int32_t, 9> ids_;
  };

  Slot& SlotOf(std::string_view piece);

 private:
  std::vector<Slot> slots_;  // a power of two of them
};

}  // namespace dsv4
