#include "platform/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <numeric>
#include <vector>

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
