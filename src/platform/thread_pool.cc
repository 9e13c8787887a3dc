#include "platform/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "platform/processors.h"

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
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t old, int num_spins) {
  for (int i = 0; i < num_spins; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    Relax();
  }
  while (true) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != old) return now;
    value.wait(old, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  DSV4_CHECK(num_threads >= 1, "num_threads {}", num_threads);
  if (num_threads == 1) return;
  const Processors processors = ReadProcessors();
  // Spinning takes from the others what they need to come to the end.
  num_spins_ = num_threads <= processors.max_running() ? kSpins : 0;
  const bool pinned = num_threads <= processors.num_cores();
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    std::vector<int> cpus;
    if (pinned) cpus = processors.cores[static_cast<size_t>(i)];
    try {
      workers_.emplace_back([this, i, cpus = std::move(cpus)] { Work(i, cpus); });
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
  inside_.fetch_or(kOpen, std::memory_order_release);
  epoch_.fetch_add(1);
  WakeSome(count - grain);
  Claim(0);
  uint32_t inside = inside_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while (inside != 0) inside = AwaitChange(inside_, inside, num_spins_);
}

// Wakes at most two of the threads that sleep; each that wakes does the same, so that all are soon
// awake where there is work for them and few where there is none. `num_left`: items for others.
void ThreadPool::WakeSome(int64_t num_left) {
  if (num_left > 0) epoch_.notify_one();
  if (num_left > grain_) epoch_.notify_one();
}

void ThreadPool::Claim(int thread) {
  while (true) {
    const int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) return;
    call_(context_, begin, std::min(begin + grain_, count_), thread);
  }
}

void ThreadPool::Work(int thread, const std::vector<int>& cpus) {
  if (!cpus.empty()) PinThisThread(cpus);
  uint32_t epoch = 0;
  while (true) {
    epoch = AwaitChange(epoch_, epoch, num_spins_);
    if (stop_.load(std::memory_order_relaxed)) return;
    if ((inside_.fetch_add(1, std::memory_order_acq_rel) & kOpen) != 0) {
      WakeSome(count_ - next_.load(std::memory_order_relaxed) - grain_);
      Claim(thread);
    }
    // The caller waits for the last one to leave a closed loop.
    if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) inside_.notify_one();
  }
}

}  // namespace dsv4
