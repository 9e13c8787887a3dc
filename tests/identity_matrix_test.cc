// Bit identity over lengths, batches and chunks: each batch and each chunk once.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/golden_support/identity.h"

namespace dsv4 {
namespace {

using testing::BatchAndChunk;

class IdentityMatrixTest
    : public ::testing::TestWithParam<std::tuple<std::string, const kernels::Kernels*>> {};

TEST_P(IdentityMatrixTest, EqualsOneGoAlone) {
  const auto& [preset, kernels] = GetParam();
  const std::vector<BatchAndChunk> pairs = {{1, 512}, {2, 64}, {5, 7}, {16, 1}};
  testing::ExpectIdentityMatrix(preset, *kernels, pairs);
}

// ref takes minutes; the slow tests run it.
std::vector<const kernels::Kernels*> VectorKernels() {
  std::vector<const kernels::Kernels*> sets = testing::AllKernels();
  std::erase_if(sets, [](const kernels::Kernels* set) { return set->name == std::string("ref"); });
  return sets;
}

std::string TestName(const ::testing::TestParamInfo<IdentityMatrixTest::ParamType>& param) {
  const auto& [preset, kernels] = param.param;
  return testing::Letters(preset + "_" + kernels->name);
}

INSTANTIATE_TEST_SUITE_P(Tiny, IdentityMatrixTest,
                         ::testing::Combine(::testing::Values("tiny-flash", "tiny-pro"),
                                            ::testing::ValuesIn(VectorKernels())),
                         TestName);

}  // namespace
}  // namespace dsv4
