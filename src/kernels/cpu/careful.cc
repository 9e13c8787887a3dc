#include "kernels/cpu/careful.h"

#include <cmath>
#include <cstring>

#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4::kernels::cpu {
namespace {

float LoadScale(const WeightView& w, int64_t block) {
  if (w.scale_format == ScaleFormat::kNone) return 1.0f;
  if (w.scale_format == ScaleFormat::kE8m0) {
    return DecodeE8m0(std::to_integer<uint8_t>(w.scale[block]));
  }
  float value;
  std::memcpy(&value, w.scale + block * 4, sizeof(value));
  return value;
}

float LoadWeight(const WeightView& w, const std::byte* row, int64_t k) {
  switch (w.format) {
    case WeightFormat::kFp8:
      return kE4m3Values[std::to_integer<uint8_t>(row[k])];
    case WeightFormat::kFp4:
      return DecodeE2m1(static_cast<uint8_t>(std::to_integer<int>(row[k / 2]) >> (k % 2 * 4)));
    case WeightFormat::kBf16: {
      Bf16 value;
      std::memcpy(&value, row + k * 2, sizeof(value));
      return ToFloat(value);
    }
    case WeightFormat::kF32:
      break;
  }
  float value;
  std::memcpy(&value, row + k * 4, sizeof(value));
  return value;
}

bool HasNanCode(const WeightView& w, int64_t row) {
  if (w.format != WeightFormat::kFp8) return false;
  const std::byte* const codes = w.data + row * w.row_bytes();
  for (int64_t k = 0; k < w.cols; ++k) {
    if ((codes[k] & std::byte{0x7F}) == std::byte{0x7F}) return true;
  }
  return false;
}

// Beyond 2^118 a scale times a code may be infinite.
bool HasHugeScale(const WeightView& w, int64_t row) {
  if (w.scale_format == ScaleFormat::kNone) return false;
  for (int64_t block = 0; block < w.scale_cols(); ++block) {
    const float scale = LoadScale(w, row / w.block_rows * w.scale_cols() + block);
    if (!(std::fabs(scale) <= 0x1p118f)) return true;
  }
  return false;
}

// Row r of the output at weight row n of the slice.
void StoreOutput(const ProductArgs& args, int64_t r, int64_t n, float value) {
  const int64_t at = r * args.output_stride + n - args.begin;
  if (args.output_type == OutputType::kBf16) {
    static_cast<Bf16*>(args.output)[at] = ToBf16(value);
  } else {
    static_cast<float*>(args.output)[at] = value;
  }
}

bool IsFinite(const ProductArgs& args, int64_t r, int64_t n) {
  const int64_t at = r * args.output_stride + n - args.begin;
  if (args.output_type == OutputType::kBf16) {
    return std::isfinite(ToFloat(static_cast<const Bf16*>(args.output)[at]));
  }
  return std::isfinite(static_cast<const float*>(args.output)[at]);
}

bool AllFinite(const ProductArgs& args, int64_t n) {
  for (int64_t r = 0; r < args.num_rows; ++r) {
    if (!IsFinite(args, r, n)) return false;
  }
  return true;
}

}  // namespace

void CarefulRow(const ProductArgs& args, int64_t weight_row, int64_t row_bytes,
                PreparedValue value) {
  const WeightView& w = *args.weight;
  const std::byte* const codes = w.data + weight_row * w.row_bytes();
  const int64_t scale_row = weight_row / w.block_rows * w.scale_cols();
  const bool rounds = args.activation == Activation::kPlain && w.scale_format != ScaleFormat::kNone;
  for (int64_t r = 0; r < args.num_rows; ++r) {
    const std::byte* const prepared = args.prepared + r * row_bytes;
    double sum = 0.0;
    for (int64_t k = 0; k < w.cols; ++k) {
      double weight =
          double{LoadWeight(w, codes, k)} * double{LoadScale(w, scale_row + k / w.block_cols)};
      if (rounds) weight = RoundToBf16(static_cast<float>(weight));
      sum += double{value(args, prepared, k)} * weight;
    }
    StoreOutput(args, r, weight_row, static_cast<float>(sum));
  }
}

void MendRows(const ProductArgs& args, Doubts doubts, int64_t row_bytes, PreparedValue value) {
  const WeightView& w = *args.weight;
  if (!doubts.nan_code && !doubts.not_finite) return;
  for (int64_t n = args.begin; n < args.end; ++n) {
    if ((doubts.nan_code && HasNanCode(w, n)) ||
        (doubts.not_finite && !AllFinite(args, n) && HasHugeScale(w, n))) {
      CarefulRow(args, n, row_bytes, value);
    }
  }
}

float QuantizedValue(Bf16 x, float scale) { return kE4m3Values[EncodeE4m3(ToFloat(x) / scale)]; }

}  // namespace dsv4::kernels::cpu
