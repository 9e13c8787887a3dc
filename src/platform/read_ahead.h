// Reading of mapped files from disk while others compute.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>

namespace dsv4 {

// A thread that reads what computing is about to touch, in the order in which it was asked for, so
// that the disk never waits for the computing and the computing threads never wait for a request to
// be made. It keeps at most a window ahead of what was used, so that what it reads is still in
// memory when its turn comes.
//
// Rounds: Begin, any number of Ask, Go, then Used from the threads that compute. Nothing here but
// construction allocates or takes a lock, and nothing but Go and Used calls the system.
class ReadAhead {
 public:
  using Read = std::function<void(std::span<const std::byte>)>;

  // More is left to be read when it is touched.
  static constexpr size_t kMostAsked = 8192;

  // `read` brings bytes into memory, or begins to; called by the thread. The mappings that are
  // asked for must outlive their round or this object.
  ReadAhead(int64_t window_bytes, Read read);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // One thread at a time. Begin drops what is left of the round before.
  void Begin();
  void Ask(std::span<const std::byte> bytes);
  void Go();
  // Any thread: so many of the bytes asked for, in the order of asking, need not be waited for.
  void Used(int64_t bytes);

 private:
  struct Piece {
    std::span<const std::byte> bytes;
    uint32_t round = 0;
    int64_t position = 0;  // bytes asked for before it in its round
  };

  void Work();
  // Waits until the piece's turn has come; false where its round is over or the thread must end.
  bool Await(const Piece& piece);

  const int64_t window_bytes_;
  const Read read_;

  // Of the asking thread.
  int64_t asked_bytes_ = 0;

  // A ring: pieces [taken_, asked_) are the thread's to read.
  std::array<Piece, kMostAsked> pieces_;
  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<int64_t> used_bytes_{0};

  // Raised where the thread may have something to do.
  std::atomic<uint32_t> news_{0};
  std::atomic<bool> awaits_use_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dsv4
