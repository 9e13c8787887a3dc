// A fixed team of threads for short parallel loops: the caller takes part, waiting threads spin a
// little and then sleep. Loops never nest and are issued by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace dsv4 {

class ThreadPool {
 public:
  // `num_threads` at least 1, the caller included; fewer where the system gives no more.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread) until [0, count) is covered by ranges of at most `grain`, each
  // claimed by whichever thread is free; returns when all are done. `thread` is in
  // [0, num_threads()). The body must not throw. Allocates nothing.
  template <class Body>
  void For(int64_t count, int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    Run(count, grain, const_cast<std::remove_const_t<Plain>*>(&body),
        [](void* context, int64_t begin, int64_t end, int thread) {
          (*static_cast<Plain*>(context))(begin, end, thread);
        });
  }

 private:
  using Call = void (*)(void* context, int64_t begin, int64_t end, int thread);

  void Run(int64_t count, int64_t grain, void* context, Call call);
  void Work(int thread);
  void Claim(int thread);

  // One loop's description: written by the caller before `epoch_` is raised, read by workers after.
  void* context_ = nullptr;
  Call call_ = nullptr;
  int64_t count_ = 0;
  int64_t grain_ = 1;
  std::atomic<int64_t> next_{0};
  std::atomic<uint32_t> epoch_{0};
  std::atomic<int32_t> running_{0};  // workers that have not finished the current loop
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace dsv4
