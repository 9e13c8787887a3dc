// A fixed team of threads for short parallel loops. The caller takes part; a thread that waits
// spins a little and then sleeps, or sleeps at once where there are more threads than processors to
// run them. Loops never nest and are issued by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace dsv4 {

class ThreadPool {
 public:
  // `num_threads` at least 1, the caller included; fewer where the system gives no more. Where the
  // calling thread's affinity mask has a core for each, every started thread is bound to one of
  // them, so that two never share one; the caller stays as it is. None leaves that mask.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread) until [0, count) is covered by ranges of at most `grain`, each
  // claimed by whichever thread is free; returns when all are done. `thread` is in
  // [0, num_threads()). The body must not throw. Allocates nothing and takes no lock.
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
  void Work(int thread, const std::vector<int>& cpus);
  void Claim(int thread);
  void WakeSome(int64_t num_left);

  int num_spins_ = 0;  // constant after construction

  // One loop's description: written by the caller while no worker is inside a loop.
  void* context_ = nullptr;
  Call call_ = nullptr;
  int64_t count_ = 0;
  int64_t grain_ = 1;
  std::atomic<int64_t> next_{0};

  // Raised once a loop; waiting workers watch it.
  std::atomic<uint32_t> epoch_{0};
  // kOpen while workers may enter the loop, plus the number of those that are inside. A worker that
  // comes late finds it closed and goes back to wait, so that a loop ends without it.
  static constexpr uint32_t kOpen = uint32_t{1} << 31;
  std::atomic<uint32_t> inside_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace dsv4
