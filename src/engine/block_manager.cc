#include "engine/block_manager.h"

#include "base/check.h"

namespace dsv4::engine {

CountedPool::CountedPool(int32_t count) : owners_(static_cast<size_t>(count), 0) {
  free_.reserve(static_cast<size_t>(count));
  for (int32_t number = count; number-- > 0;) free_.push_back(number);
}

std::optional<int32_t> CountedPool::Take() {
  if (free_.empty()) return std::nullopt;
  const int32_t number = free_.back();
  free_.pop_back();
  owners_[static_cast<size_t>(number)] = 1;
  return number;
}

void CountedPool::Share(int32_t number) {
  DSV4_CHECK(num_owners(number) > 0, "{} is free", number);
  ++owners_[static_cast<size_t>(number)];
}

void CountedPool::Release(int32_t number) {
  DSV4_CHECK(num_owners(number) > 0, "{} is free", number);
  if (--owners_[static_cast<size_t>(number)] == 0) free_.push_back(number);
}

void CountedPool::CheckIntegrity(std::span<const int32_t> held) const {
  std::vector<int32_t> counted(owners_.size(), 0);
  for (const int32_t number : held) {
    DSV4_CHECK(number >= 0 && number < size(), "{} of {}", number, size());
    ++counted[static_cast<size_t>(number)];
  }
  for (int32_t number = 0; number < size(); ++number) {
    const int32_t found = counted[static_cast<size_t>(number)];
    DSV4_CHECK(found == num_owners(number), "{} has {} owners, counted as {}", number, found,
               num_owners(number));
  }
  int32_t num_held = 0;
  for (const int32_t count : owners_) num_held += count > 0 ? 1 : 0;
  DSV4_CHECK(num_held == num_used(), "{} held, {} not in the free list", num_held, num_used());
  for (const int32_t number : free_) {
    DSV4_CHECK(num_owners(number) == 0, "{} is free and held", number);
  }
}

}  // namespace dsv4::engine
