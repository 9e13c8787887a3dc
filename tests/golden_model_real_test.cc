// One golden variant at Flash's true widths in every test run; the others are in
// golden_model_real_slow_test.cc.
#include <gtest/gtest.h>

#include "tests/golden_support/real_checkpoint.h"
#include "tests/support/temp_folder.h"

namespace dsv4::test {
namespace {

TEST(GoldenRealModelTest, WindowLayerOfFlashAgreesWithTheReference) {
  const testing::TempFolder folder;
  CheckRealVariant("flash-window", folder.path() / "checkpoint");
}

}  // namespace
}  // namespace dsv4::test
