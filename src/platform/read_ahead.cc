#include "platform/read_ahead.h"

#include <utility>

namespace dsv4 {

ReadAhead::ReadAhead(int64_t window_bytes, Read read)
    : window_bytes_(window_bytes), read_(std::move(read)), thread_([this] { Work(); }) {}

ReadAhead::~ReadAhead() {
  stop_ = true;
  ++news_;
  news_.notify_one();
  thread_.join();
}

void ReadAhead::Begin() {
  ++round_;
  asked_bytes_ = 0;
  used_bytes_ = 0;
}

void ReadAhead::Ask(std::span<const std::byte> bytes) {
  const uint64_t place = asked_.load(std::memory_order_relaxed);
  if (place - taken_.load() == kMostAsked) return;
  pieces_[place % kMostAsked] = {bytes, round_.load(std::memory_order_relaxed), asked_bytes_};
  asked_bytes_ += static_cast<int64_t>(bytes.size());
  asked_ = place + 1;
}

void ReadAhead::Go() {
  ++news_;
  news_.notify_one();
}

void ReadAhead::Used(int64_t bytes) {
  used_bytes_ += bytes;
  if (awaits_use_) Go();
}

void ReadAhead::Work() {
  uint64_t taken = 0;
  while (!stop_) {
    const uint32_t news = news_;
    if (taken == asked_) {
      news_.wait(news);
      continue;
    }
    const Piece piece = pieces_[taken % kMostAsked];
    taken_ = ++taken;
    if (Await(piece)) read_(piece.bytes);
  }
}

bool ReadAhead::Await(const Piece& piece) {
  while (true) {
    const uint32_t news = news_;
    awaits_use_ = true;
    // Read after the flag is up, so that a use is either seen here or raises the news.
    const bool is_over = stop_ || piece.round != round_;
    if (is_over || piece.position - used_bytes_ < window_bytes_) {
      awaits_use_ = false;
      return !is_over;
    }
    news_.wait(news);
  }
}

}  // namespace dsv4
