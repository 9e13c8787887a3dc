// Who holds what of the KV cache: slots, pages (counted, since full pages may be shared) and places
// for snapshots. Knows numbers only; the bytes are the executor's. Not thread-safe: the engine's
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dsv4::engine {

// Numbers 0 … count - 1, each free or held by some owners. The one released last is given out
// first.
class CountedPool {
 public:
  explicit CountedPool(int32_t count);

  int32_t size() const { return static_cast<int32_t>(owners_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_used() const { return size() - num_free(); }
  // A free number, with one owner from now on.
  std::optional<int32_t> Take();
  void Share(int32_t number);    // one more owner of a held number
  void Release(int32_t number);  // one owner less; free after the last
  int32_t num_owners(int32_t number) const { return owners_[static_cast<size_t>(number)]; }

  // `held`: every owner's numbers together. A difference to the counts, or a number both free and
  // held, is our own mistake.
  void CheckIntegrity(std::span<const int32_t> held) const;

 private:
  std::vector<int32_t> free_;    // a stack
  std::vector<int32_t> owners_;  // [size]
};

struct BlockManager {
  CountedPool slots;
  CountedPool pages;
  CountedPool snapshots;
};

}  // namespace dsv4::engine
