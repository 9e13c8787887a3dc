#include "platform/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"

namespace dsv4 {
namespace {

// Roughly 20 µs of spinning: longer than the gap between two loops of a step, shorter than a pause
// between steps.
constexpr int kSpins = 4000;

inline void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old` and returns the new value.
template <class T>
T AwaitChange(std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    const T now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    Relax();
  }
  while (true) {
    const T now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    value.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  DSV4_CHECK(num_threads >= 1, "num_threads {}", num_threads);
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    try {
      workers_.emplace_back([this, i] { Work(i); });
    } catch (const std::system_error&) {
      break;  // a limit on threads or memory: those at hand do the work
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t count, int64_t grain, void* context, Call call) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (workers_.empty() || count <= grain) {
    for (int64_t begin = 0; begin < count; begin += grain) {
      call(context, begin, std::min(begin + grain, count), 0);
    }
    return;
  }
  context_ = context;
  call_ = call;
  count_ = count;
  grain_ = grain;
  next_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  Claim(0);
  int32_t left = running_.load(std::memory_order_acquire);
  while (left != 0) left = AwaitChange(running_, left);
}

void ThreadPool::Claim(int thread) {
  while (true) {
    const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) return;
    call_(context_, begin, std::min(begin + grain_, count_), thread);
  }
}

void ThreadPool::Work(int thread) {
  uint32_t epoch = 0;
  while (true) {
    epoch = AwaitChange(epoch_, epoch);
    if (stop_.load(std::memory_order_relaxed)) return;
    Claim(thread);
    if (running_.fetch_sub(1, std::memory_order_release) == 1) running_.notify_one();
  }
}

}  // namespace dsv4
