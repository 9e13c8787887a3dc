// An owned range of zero-filled memory whose pages are touched on first use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace dsv4 {

class Buffer {
 public:
  // kHuge: for what is filled whole and read often; asks the system for large pages.
  enum class Pages { kUsual, kHuge };
  // `what` names the buffer in the error.
  static Result<Buffer> Reserve(int64_t bytes, std::string_view what, Pages pages = Pages::kUsual);
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Buffer(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace dsv4
