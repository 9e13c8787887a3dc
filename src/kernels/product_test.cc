// Properties of products that hold for every kernel set: right values over ragged shapes, the same
// bits alone, in a batch and in any slice, and nothing written outside the output.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/dispatch.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "tests/support/guarded.h"

namespace dsv4::kernels {
namespace {

using test::Guarded;

// A weight with random finite codes at an odd address.
struct RandomWeight {
  Guarded<std::byte> data;
  std::vector<std::byte> scale;
  WeightView view;

  RandomWeight(std::mt19937& rng, WeightFormat format, ScaleFormat scale_format, int64_t rows,
               int64_t cols, int32_t block_rows, int32_t block_cols)
      : data(Bytes(format, rows, cols), 1), view{format, scale_format, nullptr,    nullptr,
                                                 rows,   cols,         block_rows, block_cols} {
    std::uniform_int_distribution<int> byte(0, 255);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < data.size(); ++i) {
      const int value = byte(rng);
      data.data()[i] = static_cast<std::byte>((value & 0x7F) == 0x7F ? 0 : value);
    }
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = normal(rng);
      const Bf16 rounded = ToBf16(value);
      if (format == WeightFormat::kF32) std::memcpy(data.data() + i * 4, &value, 4);
      if (format == WeightFormat::kBf16) std::memcpy(data.data() + i * 2, &rounded, 2);
    }
    const int64_t num_scales = (rows + block_rows - 1) / block_rows * view.scale_cols();
    for (int64_t i = 0; i < num_scales; ++i) {
      if (scale_format == ScaleFormat::kE8m0) {
        scale.push_back(static_cast<std::byte>(117 + byte(rng) % 8));
      } else {
        const float value = std::ldexp(1.0f + static_cast<float>(byte(rng)) / 256, -8);
        const auto* const p = reinterpret_cast<const std::byte*>(&value);
        scale.insert(scale.end(), p, p + 4);
      }
    }
    view.data = data.data();
    view.scale = scale.data();
  }

  static int64_t Bytes(WeightFormat format, int64_t rows, int64_t cols) {
    return WeightView{.format = format, .rows = rows, .cols = cols}.row_bytes() * rows;
  }
  float Scale(int64_t row, int64_t col) const {
    const int64_t at = row / view.block_rows * view.scale_cols() + col / view.block_cols;
    if (view.scale_format == ScaleFormat::kNone) return 1.0f;
    if (view.scale_format == ScaleFormat::kE8m0) {
      return DecodeE8m0(std::to_integer<uint8_t>(scale[static_cast<size_t>(at)]));
    }
    float value;
    std::memcpy(&value, scale.data() + at * 4, 4);
    return value;
  }
  float Code(int64_t row, int64_t col) const {
    const int64_t at = row * view.cols + col;
    const std::byte* const p = view.data;
    Bf16 rounded;
    float value;
    switch (view.format) {
      case WeightFormat::kFp8:
        return DecodeE4m3(std::to_integer<uint8_t>(p[at]));
      case WeightFormat::kFp4:
        return DecodeE2m1(static_cast<uint8_t>(std::to_integer<int>(p[at / 2]) >> (at % 2 * 4)));
      case WeightFormat::kBf16:
        std::memcpy(&rounded, p + at * 2, 2);
        return ToFloat(rounded);
      case WeightFormat::kF32:
        std::memcpy(&value, p + at * 4, 4);
        return value;
    }
    return 0.0f;
  }
};

struct Shape {
  int64_t num_rows, weight_rows, cols;
};

// One product through `kernels`, whole or in parts.
class Case {
 public:
  Case(const Kernels& kernels, const RandomWeight& weight, std::vector<Bf16> x, int64_t num_rows,
       Activation activation, ActScale scale)
      : k_(kernels),
        w_(weight),
        x_(std::move(x)),
        num_rows_(num_rows),
        activation_(activation),
        scale_(scale) {}

  // Activation rows [row, row + n) against weight rows [begin, end), fp32.
  std::vector<float> Compute(int64_t row, int64_t n, int64_t begin, int64_t end) const {
    const int64_t cols = w_.view.cols;
    const int64_t stride = end - begin + 3;  // the gap between output rows must stay
    Guarded<std::byte> prepared(n * k_.prepared_row_bytes(activation_, cols, kBlock), 1);
    Guarded<float> output(std::max<int64_t>(n * stride - 3, 0));
    k_.prepare({.x = x_.data() + row * cols,
                .x_stride = cols,
                .num_rows = n,
                .cols = cols,
                .activation = activation_,
                .scale = scale_,
                .block = kBlock,
                .prepared = prepared.data()});
    k_.product({.prepared = prepared.data(),
                .num_rows = n,
                .activation = activation_,
                .scale = scale_,
                .block = kBlock,
                .weight = &w_.view,
                .begin = begin,
                .end = end,
                .output_type = OutputType::kF32,
                .output = output.data(),
                .output_stride = stride});
    EXPECT_TRUE(prepared.Intact() && output.Intact());
    std::vector<float> y;
    for (int64_t r = 0; r < n; ++r) {
      const float* const p = output.data() + r * stride;
      y.insert(y.end(), p, p + (end - begin));
    }
    return y;
  }

  // The value in double, and the sum of magnitudes that bounds its error.
  std::pair<double, double> Exact(int64_t row, int64_t weight_row) const {
    const int64_t cols = w_.view.cols;
    std::vector<Bf16> x(x_.begin() + row * cols, x_.begin() + (row + 1) * cols);
    std::vector<double> values;
    if (activation_ == Activation::kQuantized) {
      std::vector<uint8_t> codes(x.size());
      std::vector<float> scales(x.size());
      k_.act_quant(x.data(), 1, cols, kBlock, scale_, codes.data(), scales.data());
      for (size_t i = 0; i < x.size(); ++i) {
        values.push_back(double{DecodeE4m3(codes[i])} * scales[i / kBlock]);
      }
    } else {
      for (const Bf16 value : x) values.push_back(ToFloat(value));
    }
    double sum = 0.0;
    double magnitude = 0.0;
    for (int64_t i = 0; i < cols; ++i) {
      double weight = double{w_.Code(weight_row, i)} * w_.Scale(weight_row, i);
      const bool dequantized =
          activation_ == Activation::kPlain && w_.view.scale_format != ScaleFormat::kNone;
      if (dequantized) weight = RoundToBf16(static_cast<float>(weight));
      sum += values[static_cast<size_t>(i)] * weight;
      magnitude += std::fabs(values[static_cast<size_t>(i)] * weight);
    }
    return {sum, magnitude};
  }

  void Check(std::mt19937& rng) const {
    const int64_t rows = w_.view.rows;
    const std::vector<float> whole = Compute(0, num_rows_, 0, rows);
    for (int64_t r = 0; r < num_rows_; ++r) {
      for (int64_t n = 0; n < rows; ++n) {
        const auto [want, magnitude] = Exact(r, n);
        ASSERT_NEAR(whole[static_cast<size_t>(r * rows + n)], want, magnitude * 1e-6)
            << r << " " << n;
      }
      const std::vector<float> alone = Compute(r, 1, 0, rows);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), whole.begin() + r * rows))
          << "row " << r << " differs alone";
    }
    const int64_t cut = std::uniform_int_distribution<int64_t>(0, rows)(rng);
    for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, std::pair{cut, rows}}) {
      const std::vector<float> part = Compute(0, num_rows_, begin, end);
      for (int64_t r = 0; r < num_rows_; ++r) {
        for (int64_t n = begin; n < end; ++n) {
          ASSERT_EQ(part[static_cast<size_t>(r * (end - begin) + n - begin)],
                    whole[static_cast<size_t>(r * rows + n)])
              << "cut at " << cut;
        }
      }
    }
  }

 private:
  static constexpr int32_t kBlock = 128;
  const Kernels& k_;
  const RandomWeight& w_;
  std::vector<Bf16> x_;
  int64_t num_rows_;
  Activation activation_;
  ActScale scale_;
};

std::vector<Bf16> RandomRows(std::mt19937& rng, int64_t n) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(ToBf16(normal(rng)));
  return x;
}

const Shape kFp8Shapes[] = {{1, 3, 1},    {2, 5, 15},    {3, 7, 16},   {4, 2, 17},  {5, 9, 33},
                            {7, 11, 127}, {1, 130, 128}, {33, 3, 129}, {2, 6, 255}, {3, 5, 257},
                            {0, 4, 64},   {9, 1, 384},   {6, 4, 400},  {8, 8, 512}};
const Shape kFp4Shapes[] = {{1, 3, 32},  {2, 5, 64},   {3, 7, 96}, {5, 2, 128}, {33, 4, 160},
                            {4, 9, 224}, {7, 13, 384}, {0, 2, 64}, {8, 8, 512}};

TEST(Product, Fp8) {
  std::mt19937 rng(1);
  for (const Kernels* kernels : Runnable()) {
    for (const Shape& s : kFp8Shapes) {
      for (const auto format : {ScaleFormat::kE8m0, ScaleFormat::kF32}) {
        // Scale tiles of 4 rows, so that slices begin inside one.
        for (const int32_t block_cols : {32, 128, 256}) {
          const RandomWeight w(rng, WeightFormat::kFp8, format, s.weight_rows, s.cols, 4,
                               block_cols);
          const auto x = RandomRows(rng, s.num_rows * s.cols);
          SCOPED_TRACE(fmt::format("{}: {} x {} x {}, blocks of {}", kernels->name, s.num_rows,
                                   s.weight_rows, s.cols, block_cols));
          for (const auto scale : {ActScale::kPowerOfTwo, ActScale::kExact}) {
            Case(*kernels, w, x, s.num_rows, Activation::kQuantized, scale).Check(rng);
          }
          Case(*kernels, w, x, s.num_rows, Activation::kPlain, ActScale::kPowerOfTwo).Check(rng);
        }
      }
    }
  }
}

TEST(Product, Fp4) {
  std::mt19937 rng(2);
  for (const Kernels* kernels : Runnable()) {
    for (const Shape& s : kFp4Shapes) {
      const RandomWeight w(rng, WeightFormat::kFp4, ScaleFormat::kE8m0, s.weight_rows, s.cols, 1,
                           32);
      const auto x = RandomRows(rng, s.num_rows * s.cols);
      SCOPED_TRACE(
          fmt::format("{}: {} x {} x {}", kernels->name, s.num_rows, s.weight_rows, s.cols));
      for (const auto scale : {ActScale::kPowerOfTwo, ActScale::kExact}) {
        Case(*kernels, w, x, s.num_rows, Activation::kQuantized, scale).Check(rng);
      }
    }
  }
}

// Values of all sizes: within a block of activations the smallest are subnormal E4M3 codes, whose
// products need more bits than the others; some blocks are zeros.
std::vector<Bf16> RowsOfAllSizes(std::mt19937& rng, int64_t n) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-20, 0);
  std::vector<Bf16> x;
  for (int64_t i = 0; i < n; ++i) {
    const bool zero = i / 128 % 5 == 3;
    x.push_back(ToBf16(zero ? 0.0f : std::ldexp(normal(rng), exponent(rng))));
  }
  return x;
}

TEST(Product, Fp4WithActivationsOfAllSizes) {
  std::mt19937 rng(4);
  for (const Kernels* kernels : Runnable()) {
    for (const Shape& s : {Shape{1, 5, 128}, {3, 8, 640}, {8, 130, 256}, {1, 261, 1152}}) {
      const RandomWeight w(rng, WeightFormat::kFp4, ScaleFormat::kE8m0, s.weight_rows, s.cols, 1,
                           32);
      SCOPED_TRACE(
          fmt::format("{}: {} x {} x {}", kernels->name, s.num_rows, s.weight_rows, s.cols));
      Case(*kernels, w, RowsOfAllSizes(rng, s.num_rows * s.cols), s.num_rows,
           Activation::kQuantized, ActScale::kPowerOfTwo)
          .Check(rng);
    }
  }
}

TEST(Product, Fp4WithEveryScaleThatFp32Holds) {
  std::mt19937 rng(5);
  for (const Kernels* kernels : Runnable()) {
    RandomWeight w(rng, WeightFormat::kFp4, ScaleFormat::kE8m0, 246, 256, 1, 32);
    // Row n has scale code n in one block and 127 in the others.
    for (size_t row = 0; row < 246; ++row) {
      for (size_t block = 0; block < 8; ++block) {
        w.scale[row * 8 + block] = static_cast<std::byte>(block == row % 8 ? row : 127);
      }
    }
    SCOPED_TRACE(kernels->name);
    Case(*kernels, w, RandomRows(rng, 3 * 256), 3, Activation::kQuantized, ActScale::kPowerOfTwo)
        .Check(rng);
  }
}

TEST(Product, ANanAmongTheActivationsMakesItsRowNanAndNoOther) {
  std::mt19937 rng(6);
  for (const Kernels* kernels : Runnable()) {
    for (const auto format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
      const RandomWeight w(rng, format, ScaleFormat::kE8m0, 9, 384,
                           format == WeightFormat::kFp8 ? 128 : 1,
                           format == WeightFormat::kFp8 ? 128 : 32);
      for (const int64_t at : {0, 130, 383}) {
        std::vector<Bf16> x = RandomRows(rng, 2 * 384);
        x[static_cast<size_t>(384 + at)] = ToBf16(std::numeric_limits<float>::quiet_NaN());
        const Case product(*kernels, w, x, 2, Activation::kQuantized, ActScale::kPowerOfTwo);
        const std::vector<float> y = product.Compute(0, 2, 0, 9);
        for (size_t n = 0; n < 9; ++n) {
          EXPECT_TRUE(std::isfinite(y[n])) << kernels->name << " " << at;
          EXPECT_TRUE(std::isnan(y[9 + n])) << kernels->name << " " << at;
        }
      }
    }
  }
}

TEST(Product, Unquantized) {
  std::mt19937 rng(3);
  for (const Kernels* kernels : Runnable()) {
    for (int64_t cols = 1; cols <= 65; ++cols) {
      for (const auto format : {WeightFormat::kBf16, WeightFormat::kF32}) {
        const Shape s{cols % 5, cols % 7, cols};
        const RandomWeight w(rng, format, ScaleFormat::kNone, s.weight_rows, cols, 1, 1);
        SCOPED_TRACE(
            fmt::format("{}: {} x {} x {}", kernels->name, s.num_rows, s.weight_rows, cols));
        Case(*kernels, w, RandomRows(rng, s.num_rows * cols), s.num_rows, Activation::kPlain,
             ActScale::kPowerOfTwo)
            .Check(rng);
      }
    }
  }
}

// With a single 1 among the activations a product gives back each weight, for every code.
TEST(Product, EveryCodeOfEveryFormat) {
  for (const Kernels* kernels : Runnable()) {
    for (const auto format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
      constexpr int64_t kRows = 256, kCols = 32;
      const WeightView shape{.format = format, .cols = kCols};
      std::vector<std::byte> data;
      for (int64_t i = 0; i < kRows * shape.row_bytes(); ++i) {
        // Every byte value in every place of a row; NaN codes only in the column that is read.
        const int64_t code = i / shape.row_bytes();
        const bool nan = format == WeightFormat::kFp8 && (code & 0x7F) == 0x7F;
        data.push_back(static_cast<std::byte>(nan && i % kCols != 5 ? 0 : code));
      }
      const std::vector<std::byte> scale(kRows, std::byte{126});
      const WeightView w{format, ScaleFormat::kE8m0, data.data(), scale.data(), kRows, kCols, 1,
                         32};
      std::vector<Bf16> x(kCols);
      x[5] = ToBf16(1.0f);
      std::vector<std::byte> prepared(
          static_cast<size_t>(kernels->prepared_row_bytes(Activation::kQuantized, kCols, 128)));
      kernels->prepare({.x = x.data(),
                        .x_stride = kCols,
                        .num_rows = 1,
                        .cols = kCols,
                        .activation = Activation::kQuantized,
                        .prepared = prepared.data()});
      std::vector<Bf16> y(kRows);
      kernels->product({.prepared = prepared.data(),
                        .num_rows = 1,
                        .activation = Activation::kQuantized,
                        .weight = &w,
                        .end = kRows,
                        .output = y.data(),
                        .output_stride = kRows});
      for (int code = 0; code < 256; ++code) {
        const float want =
            0.5f * (format == WeightFormat::kFp8 ? DecodeE4m3(static_cast<uint8_t>(code))
                                                 : DecodeE2m1(static_cast<uint8_t>(code >> 4)));
        const float got = ToFloat(y[static_cast<size_t>(code)]);
        EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
            << kernels->name << " code " << code << " got " << got;
      }
    }
  }
}

}  // namespace
}  // namespace dsv4::kernels
