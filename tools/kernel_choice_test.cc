#include "tools/kernel_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/dispatch.h"

namespace dsv4::tools {
namespace {

class KernelChoice : public testing::Test {
 protected:
  void TearDown() override { unsetenv("DSV4_KERNELS"); }
};

TEST_F(KernelChoice, UnsetAndEmptyPickTheFastest) {
  unsetenv("DSV4_KERNELS");
  EXPECT_EQ(KernelsFromEnvironment().value(), kernels::Runnable().back());
  setenv("DSV4_KERNELS", "", 1);
  EXPECT_EQ(KernelsFromEnvironment().value(), kernels::Runnable().back());
}

TEST_F(KernelChoice, NameForcesASet) {
  setenv("DSV4_KERNELS", "ref", 1);
  EXPECT_STREQ(KernelsFromEnvironment().value()->name, "ref");
}

TEST_F(KernelChoice, UnknownNameIsAUsageErrorThatListsTheKnown) {
  setenv("DSV4_KERNELS", "avx99", 1);
  const auto chosen = KernelsFromEnvironment();
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(chosen.error().message,
              testing::AllOf(testing::HasSubstr("DSV4_KERNELS"), testing::HasSubstr("avx99"),
                             testing::HasSubstr("ref")));
}

}  // namespace
}  // namespace dsv4::tools
