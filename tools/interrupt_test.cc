#include "tools/interrupt.h"

#include <gtest/gtest.h>

namespace dsv4::tools {
namespace {

int num_caught = 0;

TEST(InterruptScope, RaisesTheFlagAndGivesTheSignalsBack) {
  struct sigaction mine {};
  mine.sa_handler = [](int) { ++num_caught; };
  struct sigaction before {};
  ::sigaction(SIGTERM, &mine, &before);
  {
    const InterruptScope scope;
    EXPECT_FALSE(scope.flag());
    ::raise(SIGTERM);
    EXPECT_TRUE(scope.flag());
  }
  EXPECT_EQ(num_caught, 0);
  ::raise(SIGTERM);
  EXPECT_EQ(num_caught, 1);
  ::sigaction(SIGTERM, &before, nullptr);
}

}  // namespace
}  // namespace dsv4::tools
