// prepared_row_bytes, prepare and product of a set whose prepared rows are fp32: cols values,
// codes times their scale, filled up to a whole group with zeros, then the integer form. Include it
// inside a target region, after float_path-inl.h, integer_path-inl.h and prepare-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

// Where the integer form of a row begins.
DSV4_INLINE int64_t IntegerOffset(int64_t cols) { return RoundUp(cols, kGroup) * 4; }

int64_t PreparedRowBytes(Activation activation, int64_t cols, int32_t block) {
  const int64_t bytes =
      IntegerOffset(cols) + (HasIntegerForm(activation, cols, block) ? IntegerRowBytes(cols) : 0);
  // An odd number of cache lines: the same columns of many rows spread over the sets of a cache.
  return ((bytes + 63) / 64 | 1) * 64;
}

// Stores groups, and their integer form where `integers`.
struct StoreFloats {
  std::byte* out;
  bool integers;
  IntegerRow integer_row;

  DSV4_INLINE void operator()(int64_t k, const Vec::Four& four, float scale) {
    if (integers) integer_row.Store(k, four, scale);
    for (int i = 0; i < 4; ++i) {
      Vec::Store(Vec::Mul(four.v[i], Vec::Set(scale)), out + k * 4 + i * kLaneBytes);
    }
  }
};

// One block that is no whole number of groups: columns [begin, end).
void PrepareOddBlock(const Bf16* x, int64_t begin, int64_t end, ActScale scale, std::byte* out) {
  const float block_scale = ref::BlockScale(x + begin, end - begin, scale);
  for (int64_t k = begin; k < end; ++k) {
    const float value = QuantizedValue(x[k], block_scale) * block_scale;
    std::memcpy(out + k * 4, &value, sizeof(value));
  }
}

void Prepare(const PrepareArgs& args) {
  const int64_t row_bytes = PreparedRowBytes(args.activation, args.cols, args.block);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const Bf16* const x = args.x + row * args.x_stride;
    std::byte* const out = args.prepared + row * row_bytes;
    const int64_t used = IntegerOffset(args.cols);
    const bool integers = FillsIntegerForm(args, args.cols);
    const int64_t filled = used + (integers ? IntegerRowBytes(args.cols) : 0);
    std::memset(out + filled, 0, static_cast<size_t>(row_bytes - filled));
    if (args.activation == Activation::kPlain || args.block % kGroup == 0) {
      ForPreparedGroups(args, x, StoreFloats{out, integers, IntegerRow(out + used, args.cols)});
    } else {
      std::memset(out, 0, static_cast<size_t>(used));
      for (int64_t k = 0; k < args.cols; k += args.block) {
        PrepareOddBlock(x, k, Smaller(args.cols, k + args.block), args.scale, out);
      }
    }
  }
}

float PreparedFloat(const ProductArgs&, const std::byte* row, int64_t k) {
  float value;
  std::memcpy(&value, row + k * 4, sizeof(value));
  return value;
}

void Product(const ProductArgs& args) {
  const WeightView& w = *args.weight;
  const int64_t row_bytes = PreparedRowBytes(args.activation, w.cols, args.block);
  const Rows x{args.prepared, row_bytes};
  if (!HasVectorBlocks(w)) {
    for (int64_t n = args.begin; n < args.end; ++n) CarefulRow(args, n, row_bytes, PreparedFloat);
    return;
  }
  if (TakesIntegerPath(args)) {
    const Rows integers = x.From(IntegerOffset(w.cols));
    MendRows(args, RunPath<IntegerPath<Dots>>(args, integers, 0, args.num_rows), row_bytes,
             PreparedFloat);
    MendScales(args, row_bytes, PreparedFloat);
    return;
  }
  MendRows(args, RunFloatPath(args, x, 0, args.num_rows), row_bytes, PreparedFloat);
}

void UseProducts(Kernels* table) {
  table->prepared_row_bytes = PreparedRowBytes;
  table->prepare = Prepare;
  table->product = Product;
}

}  // namespace
}  // namespace dsv4::kernels::cpu
