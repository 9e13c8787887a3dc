// SwiGLU: kernels/ref/moe.cc but for last bits of exp.
// Include it inside a target region, after row_loops-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

void Swiglu(const SwigluArgs& args) {
  // Min and Max give their second operand where either is NaN.
  const F limit = RowVec::Set(args.limit);
  const F one = RowVec::Set(1.0f);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const F weight = RowVec::Set(args.weights != nullptr ? args.weights[row] : 1.0f);
    for (int64_t i = 0; i < args.width; i += kLanes) {
      const int64_t n = LanesLeft(i, args.width);
      const int64_t at = row * args.width + i;
      F g = LoadRow(args.gate + at, n);
      F u = LoadRow(args.up + at, n);
      if (args.limit > 0.0f) {
        g = RowVec::Min(limit, g);
        u = RowVec::Max(RowVec::Negate(limit), RowVec::Min(limit, u));
      }
      const F silu = RowVec::Div(g, RowVec::Add(one, Exp(RowVec::Negate(g))));
      StoreRow(RowVec::Mul(weight, RowVec::Mul(silu, u)), args.output + at, n);
    }
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
