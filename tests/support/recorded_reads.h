// What a ReadAhead reads, for tests.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "platform/read_ahead.h"
#include "tests/support/patience.h"

namespace dsv4::testing {

// Notes the spans of a buffer, as "begin+size".
class RecordedReads {
 public:
  // `buffer` is never looked into.
  explicit RecordedReads(std::span<const std::byte> buffer) : buffer_(buffer) {}

  std::string Name(std::span<const std::byte> bytes) const {
    return std::to_string(bytes.data() - buffer_.data()) + "+" + std::to_string(bytes.size());
  }
  ReadAhead::Read Reading() {
    return [this](std::span<const std::byte> bytes) {
      const std::lock_guard lock(mutex_);
      read_.push_back(Name(bytes));
      changed_.notify_all();
    };
  }
  // Once there are `count` of them, and soon after still no more.
  std::vector<std::string> Get(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, test::kPatience, [&] { return read_.size() >= count; });
    changed_.wait_for(lock, test::kBriefly, [&] { return read_.size() > count; });
    return read_;
  }

 private:
  std::span<const std::byte> buffer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> read_;  // guarded by mutex_
};

}  // namespace dsv4::testing
