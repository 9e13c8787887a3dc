#include "platform/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "platform/processors.h"
#include "tests/support/time_limit.h"

namespace dsv4 {
namespace {

TEST(ThreadPool, CoversEveryItemOnceForAnyCountAndGrain) {
  for (const int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t count : {0, 1, 2, 5, 64, 1000}) {
      for (const int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> hits(static_cast<size_t>(count), 0);
        pool.For(count, grain, [&](int64_t begin, int64_t end, int thread) {
          EXPECT_LE(end - begin, grain);
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, threads);
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        for (const int hit : hits) ASSERT_EQ(hit, 1);
      }
    }
  }
}

TEST(ThreadPool, ManyShortLoopsSeeEachOthersWrites) {
  ThreadPool pool(3);
  std::vector<int64_t> values(97, 0);
  for (int round = 0; round < 5000; ++round) {
    pool.For(97, 8, [&](int64_t begin, int64_t end, int) {
      // Reads a neighbour written by any thread in the round before.
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += 1;
    });
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), 97 * 5000);
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int64_t> sum{0};
    pool.For(100, 1, [&](int64_t begin, int64_t, int) { sum += begin; });
    EXPECT_EQ(sum.load(), 4950);
  }
}

// Each loop finds workers on their way to sleep, asleep or just woken.
TEST(ThreadPool, NoWakeUpIsLost) {
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 3000; ++round) {
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::microseconds(round % 7 * round % 50);
      while (std::chrono::steady_clock::now() < until) {
      }
      if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      int64_t hits[20] = {};
      pool.For(20, 1, [&](int64_t begin, int64_t, int) { ++hits[begin]; });
      for (const int64_t hit : hits) ASSERT_EQ(hit, 1) << "round " << round;
    }
  }
}

// Every worker takes part where the work waits for it.
TEST(ThreadPool, SleepingWorkersAreAllWoken) {
  constexpr int kThreads = 8;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> arrived{0};
    pool.For(kThreads, 1, [&](int64_t, int64_t, int) {
      ++arrived;
      while (arrived < kThreads) std::this_thread::yield();
    });
    ASSERT_EQ(arrived, kThreads);
  }
}

TEST(ThreadPool, ManyMoreThreadsThanProcessorsCostLittle) {
  for (const auto& [threads, rounds] : {std::pair{64, 2000}, std::pair{1024, 500}}) {
    ThreadPool pool(threads);
    const auto start = std::chrono::steady_clock::now();
    std::vector<int64_t> values(256, 0);
    for (int round = 0; round < rounds; ++round) {
      pool.For(256, 1,
               [&](int64_t begin, int64_t, int) { values[static_cast<size_t>(begin)] += 1; });
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), 256 * rounds);
    EXPECT_LT(taken, test::Within(5)) << threads << " threads";
  }
}

std::vector<int> AffinityOfThisThread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  }
  return cpus;
}

// The affinities of the threads of a pool, the caller's not.
std::vector<std::vector<int>> WorkerAffinities(int threads) {
  ThreadPool pool(threads);
  std::vector<std::vector<int>> found;
  std::mutex mutex;
  std::set<int> arrived;
  std::atomic<int> num_arrived{0};
  pool.For(threads, 1, [&](int64_t, int64_t, int thread) {
    {
      const std::lock_guard lock(mutex);
      if (thread != 0 && arrived.insert(thread).second) found.push_back(AffinityOfThisThread());
    }
    ++num_arrived;
    while (num_arrived < threads) std::this_thread::yield();
  });
  return found;
}

TEST(ThreadPool, KeepsToTheAffinityMaskOfItsMaker) {
  const std::vector<int> all = AffinityOfThisThread();
  for (const int cpu : {all.front(), all.back()}) {
    std::thread([&] {
      PinThisThread({cpu});
      const auto affinities = WorkerAffinities(4);
      EXPECT_EQ(affinities.size(), 3u);
      for (const auto& affinity : affinities) EXPECT_EQ(affinity, std::vector<int>{cpu});
      EXPECT_EQ(AffinityOfThisThread(), std::vector<int>{cpu});
    }).join();
  }
}

TEST(ThreadPool, WorkersHaveACoreEachWhereThereAreEnough) {
  const Processors processors = ReadProcessors();
  const auto affinities = WorkerAffinities(processors.num_cores());
  EXPECT_EQ(affinities.size(), processors.cores.size() - 1);
  std::set<int> taken;
  for (const auto& affinity : affinities) {
    EXPECT_TRUE(std::find(processors.cores.begin(), processors.cores.end(), affinity) !=
                processors.cores.end());
    for (const int cpu : affinity) EXPECT_TRUE(taken.insert(cpu).second) << "processor " << cpu;
  }
  for (const auto& affinity : WorkerAffinities(processors.num_cores() + 1)) {
    EXPECT_EQ(affinity, AffinityOfThisThread());
  }
}

// No address space holds stacks of 2^46 bytes for all of them.
TEST(ThreadPool, WorksWithTheThreadsTheSystemGives) {
  pthread_attr_t before;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  pthread_attr_t greedy;
  ASSERT_EQ(::pthread_attr_init(&greedy), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&greedy, size_t{1} << 46), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&greedy), 0);
  ThreadPool pool(8);
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  EXPECT_LT(pool.num_threads(), 8);
  std::atomic<int64_t> sum{0};
  pool.For(100, 1, [&](int64_t begin, int64_t, int) { sum += begin; });
  EXPECT_EQ(sum.load(), 4950);
}

}  // namespace
}  // namespace dsv4
