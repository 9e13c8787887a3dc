// Scratch memory of a step: one reserved range, handed out from the front and given back by scope.
// It never allocates during a step and touches no more memory than was ever in use at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tensor/buffer.h"

namespace dsv4 {

class Workspace {
 public:
  static constexpr int64_t kAlignment = 64;

  // Reserves address space only; pages are touched on first use.
  static Result<Workspace> Create(int64_t capacity_bytes);
  // Uninitialised, aligned to 64 bytes, valid until the enclosing Scope ends.
  template <class T>
  T* Take(int64_t count) {
    return reinterpret_cast<T*>(TakeBytes(count * static_cast<int64_t>(sizeof(T))));
  }
  std::byte* TakeBytes(int64_t bytes);

  int64_t capacity() const { return buffer_.bytes(); }
  // The most that was ever in use at once.
  int64_t high_water() const { return high_water_; }

  // Gives back, at its end, everything taken since its start.
  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), used_(workspace.used_) {}
    ~Scope() { workspace_.used_ = used_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    int64_t used_;
  };

 private:
  explicit Workspace(Buffer buffer) : buffer_(std::move(buffer)) {}

  Buffer buffer_;
  int64_t used_ = 0;
  int64_t high_water_ = 0;
};

}  // namespace dsv4
