// What the vector forms of products do not do right, in plain code: scales that change within a
// half group, scales whose product with a code leaves the range of fp32, NaN codes; in double, one
// element after the other.
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

// What a vector form noticed and did not look into.
struct Doubts {
  bool nan_code = false;    // among the weights
  bool not_finite = false;  // an output
};

// Does again every weight row that has a NaN code, or a scale that may have made an output infinite
// or NaN.
void MendRows(const ProductArgs& args, Doubts doubts, int64_t row_bytes, PreparedValue value);

// The E4M3 value of one element, not scaled.
float QuantizedValue(Bf16 x, float scale);

}  // namespace dsv4::kernels::cpu
