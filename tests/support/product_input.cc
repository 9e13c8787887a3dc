#include "tests/support/product_input.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4::test {
namespace {

constexpr int32_t kActBlock = 128;

const char* FormatText(WeightFormat format) {
  switch (format) {
    case WeightFormat::kFp8:
      return "fp8";
    case WeightFormat::kFp4:
      return "fp4";
    case WeightFormat::kBf16:
      return "bf16";
    case WeightFormat::kF32:
      break;
  }
  return "f32";
}

// Rows whose codes go through all values, finite unless NaN is asked for.
void FillWeights(const ProductShape& shape, bool nan_codes, std::mt19937& rng, std::byte* data) {
  const int64_t n = shape.weight_rows * shape.cols;
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < n; ++i) {
    if (shape.format == WeightFormat::kFp8) {
      const auto code = static_cast<uint8_t>(rng());
      const bool nan = (code & 0x7F) == 0x7F && !(nan_codes && i % 7 == 0);
      data[i] = static_cast<std::byte>(nan ? 1 : code);
    } else if (shape.format == WeightFormat::kFp4) {
      if (i % 2 == 0) data[i / 2] = static_cast<std::byte>(rng());
    } else if (shape.format == WeightFormat::kBf16) {
      const Bf16 value = ToBf16(normal(rng));
      std::memcpy(data + i * 2, &value, sizeof(value));
    } else {
      const float value = normal(rng);
      std::memcpy(data + i * 4, &value, sizeof(value));
    }
  }
}

float ScaleAt(const WeightView& w, int64_t row, int64_t col) {
  const int64_t at = row / w.block_rows * w.scale_cols() + col / w.block_cols;
  if (w.scale_format == ScaleFormat::kNone) return 1.0f;
  if (w.scale_format == ScaleFormat::kE8m0) {
    return DecodeE8m0(std::to_integer<uint8_t>(w.scale[at]));
  }
  float value;
  std::memcpy(&value, w.scale + at * 4, sizeof(value));
  return value;
}

float CodeAt(const WeightView& w, int64_t row, int64_t col) {
  const std::byte* const p = w.data + row * w.row_bytes();
  switch (w.format) {
    case WeightFormat::kFp8:
      return DecodeE4m3(std::to_integer<uint8_t>(p[col]));
    case WeightFormat::kFp4:
      return DecodeE2m1(static_cast<uint8_t>(std::to_integer<int>(p[col / 2]) >> (col % 2 * 4)));
    case WeightFormat::kBf16: {
      Bf16 value;
      std::memcpy(&value, p + col * 2, sizeof(value));
      return ToFloat(value);
    }
    case WeightFormat::kF32:
      break;
  }
  float value;
  std::memcpy(&value, p + col * 4, sizeof(value));
  return value;
}

}  // namespace

WeightView ProductViewOf(const ProductShape& shape) {
  WeightView view{.format = shape.format, .rows = shape.weight_rows, .cols = shape.cols};
  if (shape.format == WeightFormat::kFp8 || shape.format == WeightFormat::kFp4) {
    const bool fp8 = shape.format == WeightFormat::kFp8;
    view.scale_format = shape.scale_format;
    view.block_rows = fp8 ? 128 : 1;
    view.block_cols = fp8 ? 128 : 32;
  }
  return view;
}

std::string Text(const ProductShape& shape) {
  return fmt::format("{} {} x {} x {}{}{}{}", FormatText(shape.format), shape.num_rows,
                     shape.weight_rows, shape.cols,
                     shape.activation == kernels::Activation::kPlain ? " plain" : "",
                     shape.scale == kernels::ActScale::kExact ? " exact scale" : "",
                     shape.scale_format == ScaleFormat::kF32 ? " fp32 scales" : "");
}

ProductInput::ProductInput(const ProductShape& shape, uint32_t seed, Extremes extremes)
    : shape_(shape),
      data_(ProductViewOf(shape).row_bytes() * shape.weight_rows, 1),
      view_(ProductViewOf(shape)) {
  std::mt19937 rng(seed);
  FillWeights(shape, extremes == Extremes::kNanCodes, rng, data_.data());
  const int64_t num_scales =
      (shape.weight_rows + view_.block_rows - 1) / view_.block_rows * view_.scale_cols();
  for (int64_t i = 0; i < num_scales && view_.scale_format != ScaleFormat::kNone; ++i) {
    auto code = static_cast<uint8_t>(117 + rng() % 8);
    if (extremes == Extremes::kHugeScales && rng() % 5 == 0) code = 246;
    if (extremes == Extremes::kTinyScales && rng() % 2 == 0) code = static_cast<uint8_t>(rng() % 3);
    if (view_.scale_format == ScaleFormat::kE8m0) {
      scales_.push_back(static_cast<std::byte>(code));
      continue;
    }
    const float value = DecodeE8m0(code) * (1.0f + static_cast<float>(rng() % 256) / 256);
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    scales_.insert(scales_.end(), bytes, bytes + sizeof(value));
  }
  std::normal_distribution<float> normal;
  // Small enough for the sums to stay finite.
  const float spread = extremes == Extremes::kHugeScales ? 0x1p-12f : 1.0f;
  for (int64_t i = 0; i < shape.num_rows * shape.cols; ++i) {
    x_.push_back(ToBf16(normal(rng) * spread));
  }
  if (extremes == Extremes::kInfiniteRows) {
    const float specials[] = {std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), 1e30f, 1e-39f};
    for (size_t i = 0; i < x_.size(); i += 101) x_[i] = ToBf16(specials[rng() % 4]);
  }
  view_.data = data_.data();
  view_.scale = scales_.data();
}

std::vector<float> ProductInput::Compute(const kernels::Kernels& kernels, int64_t slice,
                                         int64_t batch) {
  const int64_t row_bytes = kernels.prepared_row_bytes(shape_.activation, shape_.cols, kActBlock);
  Guarded<std::byte> prepared(shape_.num_rows * row_bytes, 1);
  Guarded<float> output(shape_.num_rows * shape_.weight_rows);
  bool intact = true;
  for (int64_t row = 0; row < shape_.num_rows; row += batch) {
    const int64_t count = std::min(batch, shape_.num_rows - row);
    kernels.prepare({.x = x_.data() + row * shape_.cols,
                     .x_stride = shape_.cols,
                     .num_rows = count,
                     .cols = shape_.cols,
                     .activation = shape_.activation,
                     .scale = shape_.scale,
                     .block = kActBlock,
                     .prepared = prepared.data() + row * row_bytes});
    for (int64_t begin = 0; begin < shape_.weight_rows; begin += slice) {
      kernels.product({.prepared = prepared.data() + row * row_bytes,
                       .num_rows = count,
                       .activation = shape_.activation,
                       .scale = shape_.scale,
                       .block = kActBlock,
                       .weight = &view_,
                       .begin = begin,
                       .end = std::min(begin + slice, shape_.weight_rows),
                       .output_type = kernels::OutputType::kF32,
                       .output = output.data() + row * shape_.weight_rows + begin,
                       .output_stride = shape_.weight_rows});
      intact = intact && prepared.Intact() && output.Intact() && data_.Intact();
    }
  }
  return intact ? output.values() : std::vector<float>();
}

std::vector<double> ProductInput::Magnitudes() const {
  const bool rounds =
      shape_.activation == kernels::Activation::kPlain && view_.scale_format != ScaleFormat::kNone;
  std::vector<double> magnitudes;
  std::vector<double> weights(static_cast<size_t>(shape_.weight_rows * shape_.cols));
  for (int64_t n = 0; n < shape_.weight_rows; ++n) {
    for (int64_t k = 0; k < shape_.cols; ++k) {
      double weight = double{CodeAt(view_, n, k)} * ScaleAt(view_, n, k);
      if (rounds) weight = RoundToBf16(static_cast<float>(weight));
      weights[static_cast<size_t>(n * shape_.cols + k)] = std::fabs(weight);
    }
  }
  for (int64_t r = 0; r < shape_.num_rows; ++r) {
    for (int64_t n = 0; n < shape_.weight_rows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < shape_.cols; ++k) {
        sum += std::fabs(double{ToFloat(x_[static_cast<size_t>(r * shape_.cols + k)])}) *
               weights[static_cast<size_t>(n * shape_.cols + k)];
      }
      magnitudes.push_back(sum);
    }
  }
  return magnitudes;
}

}  // namespace dsv4::test
