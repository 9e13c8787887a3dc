// From a token's name to its id, while a tokenizer is loaded.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace dsv4 {

class NameIndex {
 public:
  NameIndex() = default;
  // names[id], distinct, fewer than 2^31; they must outlive the index.
  explicit NameIndex(std::span<const std::string_view> names)
      : names_(names), slots_(std::bit_ceil(2 * names.size() + 2), Slot{0, -1}) {
    for (size_t id = 0; id < names.size(); ++id) {
      const size_t hash = HashOf(names[id]);
      size_t at = hash & (slots_.size() - 1);
      while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(id)};
    }
  }

  // -1 where there is none of that name.
  int32_t Find(std::string_view name) const {
    const size_t hash = HashOf(name);
    for (size_t at = hash & (slots_.size() - 1); slots_[at].id >= 0;
         at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].tag == static_cast<uint32_t>(hash >> 32) &&
          names_[static_cast<size_t>(slots_[at].id)] == name) {
        return slots_[at].id;
      }
    }
    return -1;
  }

 private:
  // Open addressing, at most half full. The tag is the hash's upper half: it spares looking at
  // names.
  struct Slot {
    uint32_t tag;
    int32_t id;
  };

  static size_t HashOf(std::string_view name) { return std::hash<std::string_view>{}(name); }

  std::span<const std::string_view> names_;
  std::vector<Slot> slots_ = {Slot{0, -1}};
};

}  // namespace dsv4
