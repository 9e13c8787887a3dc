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

TEST(InterruptScope, AHangUpThatIsIgnoredStaysSo) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const InterruptScope scope;
    struct sigaction during {};
    ::sigaction(SIGHUP, nullptr, &during);
    EXPECT_EQ(during.sa_handler, SIG_IGN);
  }
  std::signal(SIGHUP, before);
}

}  // namespace
}  // namespace dsv4::tools
