// Weights and activations for checks and measurements of products.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/support/guarded.h"

namespace dsv4::test {

struct ProductShape {
  WeightFormat format = WeightFormat::kFp8;
  int64_t num_rows = 0;  // of activations
  int64_t weight_rows = 0;
  int64_t cols = 0;
  kernels::Activation activation = kernels::Activation::kQuantized;
  kernels::ActScale scale = kernels::ActScale::kPowerOfTwo;
  ScaleFormat scale_format = ScaleFormat::kE8m0;
};

// "fp8 8 x 4096 x 4096"
std::string Text(const ProductShape& shape);

// Without data and scales.
WeightView ProductViewOf(const ProductShape& shape);

// What is mixed into the operands.
enum class Extremes : uint8_t { kNone, kNanCodes, kInfiniteRows, kHugeScales, kTinyScales };

// Random operands at odd addresses.
class ProductInput {
 public:
  ProductInput(const ProductShape& shape, uint32_t seed, Extremes extremes);

  const WeightView& weight() const { return view_; }

  // [num_rows, weight_rows] through `kernels`, in slices of `slice` weight rows and `batch`
  // activation rows; empty where a guard was overwritten.
  std::vector<float> Compute(const kernels::Kernels& kernels, int64_t slice, int64_t batch);
  // sum |x * w| of every output, in double: what an error is measured by.
  std::vector<double> Magnitudes() const;

 private:
  ProductShape shape_;
  Guarded<std::byte> data_;
  std::vector<std::byte> scales_;
  std::vector<Bf16> x_;
  WeightView view_;
};

}  // namespace dsv4::test
