#include "checkpoint/verify.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace dsv4 {
namespace {

template <class T>
TensorFaults FaultsOf(std::string name, DType dtype, const std::vector<T>& values) {
  TensorInfo tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = {static_cast<int64_t>(values.size())};
  tensor.data = std::as_bytes(std::span(values));
  return FindFaults(tensor, 8);
}

TEST(FindFaults, CountsNanAndInfinityOfFloats) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const TensorFaults faults = FaultsOf<float>(
      "x", DType::kF32, {0.0f, nan, -nan, inf, -inf, inf, 3.4e38f, -3.4e38f, 1e-45f});
  EXPECT_EQ(faults.num_nan, 2);
  EXPECT_EQ(faults.num_infinite, 3);
  EXPECT_TRUE(faults.any());
}

TEST(FindFaults, CountsEveryBf16Code) {
  std::vector<uint16_t> codes(65536);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  const TensorFaults faults = FaultsOf("x", DType::kBF16, codes);
  EXPECT_EQ(faults.num_nan, 2 * 127);
  EXPECT_EQ(faults.num_infinite, 2);
}

TEST(FindFaults, CountsEveryByteCode) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
  const TensorFaults fp8 = FaultsOf("x", DType::kF8E4M3, codes);
  EXPECT_EQ(fp8.num_nan, 2);
  EXPECT_EQ(fp8.num_infinite + fp8.num_nan_scales + fp8.num_out_of_range, 0);
  const TensorFaults e8m0 = FaultsOf("x", DType::kF8E8M0, codes);
  EXPECT_EQ(e8m0.num_nan_scales, 1);
  EXPECT_EQ(e8m0.num_nan + e8m0.num_infinite + e8m0.num_out_of_range, 0);
  EXPECT_FALSE(FaultsOf("x", DType::kI8, codes).any());
  EXPECT_FALSE(FaultsOf("x", DType::kF4, codes).any());
  EXPECT_FALSE(FaultsOf("x", DType::kU8, codes).any());
}

TEST(FindFaults, CountsExpertsThatDoNotExist) {
  const std::vector<int64_t> wide = {0, 7, 8, -1, int64_t{1} << 40};
  EXPECT_EQ(FaultsOf("layers.0.ffn.gate.tid2eid", DType::kI64, wide).num_out_of_range, 3);
  EXPECT_FALSE(FaultsOf("other", DType::kI64, wide).any());
  const std::vector<int32_t> narrow = {0, 7, 8, -1};
  EXPECT_EQ(FaultsOf("layers.0.ffn.gate.tid2eid", DType::kI32, narrow).num_out_of_range, 2);
}

}  // namespace
}  // namespace dsv4
