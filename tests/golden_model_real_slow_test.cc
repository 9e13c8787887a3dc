// The golden vectors at the true widths of Flash and Pro, on synthetic checkpoints made on the
// spot.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"
#include "tests/golden_support/golden_model.h"
#include "tests/golden_support/real_checkpoint.h"
#include "tests/support/temp_folder.h"

namespace dsv4::test {
namespace {

class GoldenRealModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenRealModelTest, AgreesWithTheReference) {
  const testing::TempFolder folder;
  CheckRealVariant(GetParam(), folder.path() / "checkpoint");
}

std::string TestName(const ::testing::TestParamInfo<std::string>& param) {
  std::string name = param.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Real, GoldenRealModelTest,
                         ::testing::Values("flash-csa", "flash-csa-top64", "flash-hca",
                                           "flash-mix-mtp", "pro-hca-csa"),
                         TestName);

}  // namespace
}  // namespace dsv4::test
