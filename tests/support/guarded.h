// A buffer with guard bytes on both sides, for tests of what a kernel may write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dsv4::test {

template <class T>
class Guarded {
 public:
  // `shift` bytes move the buffer away from any alignment; for types of one byte only where odd.
  explicit Guarded(int64_t size, int64_t shift = 0)
      : size_(size),
        bytes_(static_cast<size_t>(2 * kGuardBytes + size * sizeof(T)) + 64, kGuard),
        begin_(kGuardBytes + static_cast<size_t>(shift)) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data() + kGuardBytes);
    begin_ += (64 - address % 64) % 64;
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  int64_t size() const { return size_; }
  std::vector<T> values() {
    std::vector<T> copy(static_cast<size_t>(size_));
    if (size_ > 0) std::memcpy(copy.data(), data(), copy.size() * sizeof(T));
    return copy;
  }
  // Whether every byte outside the buffer is as it was.
  bool Intact() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return std::all_of(bytes_.begin(), first, is_guard) &&
           std::all_of(first + size_ * static_cast<int64_t>(sizeof(T)), bytes_.end(), is_guard);
  }

 private:
  static constexpr std::byte kGuard{0xA5};
  static constexpr size_t kGuardBytes = 128;
  int64_t size_;
  std::vector<std::byte> bytes_;
  size_t begin_;
};

}  // namespace dsv4::test
