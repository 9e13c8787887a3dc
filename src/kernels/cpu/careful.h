// What the vector forms of products do not do right, in plain code: scales that change within a
// half group, scales whose product with a code leaves the range of fp32, NaN codes; in double, one
// element after the other. And the scalar ends of a product.
#pragma once

#include "kernels/kernels.h"
#include "numeric/e8m0.h"

namespace dsv4::kernels::cpu {

// 2^(code - 127), NaN for 0xFF.
struct E8m0Values {
  float values[256];
};
inline constexpr E8m0Values kE8m0 = [] {
  E8m0Values table{};
  for (unsigned code = 0; code < 256; ++code) {
    table.values[code] = DecodeE8m0(static_cast<uint8_t>(code));
  }
  return table;
}();

// Value of element k of a prepared row of these arguments.
using PreparedValue = float (*)(const ProductArgs& args, const std::byte* row, int64_t k);

// Every output of one weight row.
void CarefulRow(const ProductArgs& args, int64_t weight_row, int64_t row_bytes,
                PreparedValue value);

// Does again what came out infinite or NaN because of a code or a scale; with saw_nan, every weight
// row that has a NaN code.
void MendRows(const ProductArgs& args, bool saw_nan, int64_t row_bytes, PreparedValue value);

// The E4M3 value of one element, not scaled.
float QuantizedValue(Bf16 x, float scale);

// Row r of the output at weight row n of the slice.
inline void StoreOutput(const ProductArgs& args, int64_t r, int64_t n, float value) {
  const int64_t at = r * args.output_stride + n - args.begin;
  if (args.output_type == OutputType::kBf16) {
    static_cast<Bf16*>(args.output)[at] = ToBf16(value);
  } else {
    static_cast<float*>(args.output)[at] = value;
  }
}

}  // namespace dsv4::kernels::cpu
