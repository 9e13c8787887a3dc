#include "ops/claims.h"

#include <gtest/gtest.h>

namespace dsv4 {
namespace {

TEST(Claims, EveryThreadGetsSomeOfMuchWorkAndOneThreadAllOfLittle) {
  EXPECT_EQ(Grain(512, 4096, 2), 64) << "four claims a thread";
  EXPECT_EQ(Grain(10, 1, 8), 32769) << "all at once";
  EXPECT_EQ(Grain(1, 0, 1), 32769);
  EXPECT_EQ(Grain(1000, 1 << 20, 4), 63);
}

TEST(Claims, ProductsAreCutWhereTheirKernelsWalk) {
  EXPECT_EQ(ProductGrain(4096, 1, 2), 256);
  EXPECT_EQ(ProductGrain(1 << 20, 1, 2), 1024) << "at most eight segments";
  EXPECT_EQ(ProductGrain(4096, 8, 2) % 96, 0);
  EXPECT_EQ(ProductGrain(24, 1, 2), 12) << "half each";
  EXPECT_EQ(ProductGrain(1, 1, 64), 4);
  EXPECT_GE(ProductGrain(0, 1, 1), 1);
}

}  // namespace
}  // namespace dsv4
