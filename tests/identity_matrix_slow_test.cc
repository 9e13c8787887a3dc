// Bit identity over lengths, batches and chunks: every batch with every chunk.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/golden_support/identity.h"

namespace dsv4 {
namespace {

using testing::BatchAndChunk;

class IdentityMatrixSlowTest
    : public ::testing::TestWithParam<std::tuple<std::string, const kernels::Kernels*, int64_t>> {};

TEST_P(IdentityMatrixSlowTest, EqualsOneGoAlone) {
  const auto& [preset, kernels, batch] = GetParam();
  std::vector<BatchAndChunk> pairs;
  for (const int64_t chunk : {1, 7, 64, 512}) pairs.push_back({batch, chunk});
  testing::ExpectIdentityMatrix(preset, *kernels, pairs);
}

std::string TestName(const ::testing::TestParamInfo<IdentityMatrixSlowTest::ParamType>& param) {
  const auto& [preset, kernels, batch] = param.param;
  return testing::Letters(preset + "_" + kernels->name + "_batch" + std::to_string(batch));
}

INSTANTIATE_TEST_SUITE_P(Tiny, IdentityMatrixSlowTest,
                         ::testing::Combine(::testing::Values("tiny-flash", "tiny-pro"),
                                            ::testing::ValuesIn(testing::AllKernels()),
                                            ::testing::Values(1, 2, 5, 16)),
                         TestName);

}  // namespace
}  // namespace dsv4
