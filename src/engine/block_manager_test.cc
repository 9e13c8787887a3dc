#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <vector>

namespace dsv4::engine {
namespace {

TEST(CountedPool, GivesEachNumberOnceAndThenNone) {
  CountedPool pool(3);
  EXPECT_EQ(pool.Take(), 0);
  EXPECT_EQ(pool.Take(), 1);
  EXPECT_EQ(pool.Take(), 2);
  EXPECT_EQ(pool.Take(), std::nullopt);
  pool.Release(1);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.Take(), 1);
}

TEST(CountedPool, ASharedNumberIsFreeAfterItsLastOwner) {
  CountedPool pool(1);
  const int32_t number = *pool.Take();
  pool.Share(number);
  pool.Release(number);
  EXPECT_EQ(pool.num_used(), 1);
  pool.CheckIntegrity(std::vector<int32_t>{number});
  pool.Release(number);
  EXPECT_EQ(pool.num_used(), 0);
  pool.CheckIntegrity({});
}

TEST(CountedPoolDeathTest, OurOwnMistakesAreSeen) {
  CountedPool pool(2);
  EXPECT_DEATH(pool.Release(0), "0 is free");
  EXPECT_DEATH(pool.Share(1), "1 is free");
  const int32_t number = *pool.Take();
  EXPECT_DEATH(pool.CheckIntegrity({}), "0 owners, counted as 1");
  EXPECT_DEATH(pool.CheckIntegrity(std::vector<int32_t>{number, number}), "2 owners, counted as 1");
  EXPECT_DEATH(pool.CheckIntegrity(std::vector<int32_t>{2}), "2 of 2");
}

}  // namespace
}  // namespace dsv4::engine
