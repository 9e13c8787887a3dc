// prepared_row_bytes, prepare and product of a set whose prepared rows are bf16: cols values in the
// order of bf16_path-inl.h, filled up to a whole group with zeros, then one fp32 scale per block,
// then the integer form. Scales that are powers of two are in the values, and the fp32 scales 1.
// Include it inside the target region of isa_avx512_bf16.cc, after bf16_path-inl.h and
// float_path-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

DSV4_INLINE int64_t NumBlocks(int64_t cols, int64_t block) { return (cols + block - 1) / block; }

DSV4_INLINE int64_t ScaleOffset(int64_t cols) { return RoundUp(cols, kGroup) * 2; }

// Where the integer form of a quantised row begins.
DSV4_INLINE int64_t IntegerOffset(int64_t cols) {
  return RoundUp(ScaleOffset(cols) + NumBlocks(cols, kIntegerBlock) * 4, 64);
}

int64_t PreparedRowBytes(Activation activation, int64_t cols, int32_t block) {
  const int64_t scales = activation == Activation::kQuantized ? NumBlocks(cols, block) * 4 : 0;
  const int64_t bytes = HasIntegerForm(activation, cols, block)
                            ? IntegerOffset(cols) + IntegerRowBytes(cols)
                            : ScaleOffset(cols) + scales;
  // An odd number of cache lines: the same columns of many rows spread over the sets of a cache.
  return ((bytes + 63) / 64 | 1) * 64;
}

// Stores groups and their scales.
struct StoreWords {
  std::byte* out;
  int64_t cols;
  int32_t block;
  bool fold;
  bool integers;
  IntegerRow integer_row;

  DSV4_INLINE void operator()(int64_t k, const Vec::Four& four, float scale) {
    if (integers) integer_row.Store(k, four, scale);
    const float factor = fold ? scale : 1.0f;
    Vec::F v[4];
    for (int i = 0; i < 4; ++i) v[i] = Vec::Mul(four.v[i], Vec::Set(factor));
    const Words low = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v[1], v[0]));
    const Words high = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(v[3], v[2]));
    const Two two = ApartEvenAndOdd({{low, high}});
    _mm512_storeu_si512(out + k * 2, two.v[0]);
    _mm512_storeu_si512(out + k * 2 + 64, two.v[1]);
    if (k % block == 0) {
      const float rest = fold ? 1.0f : scale;
      std::memcpy(out + ScaleOffset(cols) + k / block * 4, &rest, sizeof(rest));
    }
  }
};

// Blocks that are no whole number of groups.
void PrepareOddBlocks(const PrepareArgs& args, const Bf16* x, std::byte* out) {
  for (int64_t begin = 0; begin < args.cols; begin += args.block) {
    const int64_t n = Smaller(args.cols - begin, args.block);
    const float scale = ref::BlockScale(x + begin, n, args.scale);
    const bool fold = args.scale == ActScale::kPowerOfTwo;
    const float rest = fold ? 1.0f : scale;
    for (int64_t k = begin; k < begin + n; ++k) {
      const Bf16 value = ToBf16(QuantizedValue(x[k], scale) * (fold ? scale : 1.0f));
      std::memcpy(out + WordPosition(k) * 2, &value, sizeof(value));
    }
    std::memcpy(out + ScaleOffset(args.cols) + begin / args.block * 4, &rest, sizeof(rest));
  }
}

void Prepare(const PrepareArgs& args) {
  const int64_t row_bytes = PreparedRowBytes(args.activation, args.cols, args.block);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const Bf16* const x = args.x + row * args.x_stride;
    std::byte* const out = args.prepared + row * row_bytes;
    const int64_t whole = args.cols / kGroup * kGroup * 2;  // bytes
    const bool integers = FillsIntegerForm(args, args.cols);
    const int64_t form_begin = integers ? IntegerOffset(args.cols) : row_bytes;
    const int64_t form_end = integers ? form_begin + IntegerRowBytes(args.cols) : row_bytes;
    std::memset(out + whole, 0, static_cast<size_t>(form_begin - whole));
    std::memset(out + form_end, 0, static_cast<size_t>(row_bytes - form_end));
    if (args.activation == Activation::kPlain) {
      std::memcpy(out, x, static_cast<size_t>(args.cols) * sizeof(Bf16));
    } else if (args.block % kGroup == 0) {
      const bool fold = args.scale == ActScale::kPowerOfTwo;
      ForPreparedGroups(args, x,
                        StoreWords{out, args.cols, args.block, fold, integers,
                                   IntegerRow(out + IntegerOffset(args.cols), args.cols)});
    } else {
      PrepareOddBlocks(args, x, out);
    }
  }
}

DSV4_INLINE float WordToFloat(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float PreparedElement(const ProductArgs& args, const std::byte* row, int64_t k) {
  if (args.activation == Activation::kPlain) return WordToFloat(row + k * 2);
  float scale;
  std::memcpy(&scale, row + ScaleOffset(args.weight->cols) + k / args.block * 4, sizeof(scale));
  return WordToFloat(row + WordPosition(k) * 2) * scale;
}

// Whether the bf16 path gives the product: no scale may need more than an exponent.
bool IsBf16Exact(const ProductArgs& args) {
  return args.weight->format != WeightFormat::kF32 &&
         args.weight->scale_format != ScaleFormat::kF32 &&
         (args.activation == Activation::kPlain || args.scale == ActScale::kPowerOfTwo);
}

Doubts RunBf16Path(const ProductArgs& args, Rows x) {
  const bool plain = args.activation == Activation::kPlain;
  switch (args.weight->format) {
    case WeightFormat::kFp8:
      return plain ? RunScaled<PlainPath, WeightFormat::kFp8>(args, x, 0, args.num_rows)
                   : RunScaled<QuantizedPath, WeightFormat::kFp8>(args, x, 0, args.num_rows);
    case WeightFormat::kFp4:
      return plain ? RunScaled<PlainPath, WeightFormat::kFp4>(args, x, 0, args.num_rows)
                   : RunScaled<QuantizedPath, WeightFormat::kFp4>(args, x, 0, args.num_rows);
    default:
      return RunPath<PlainPath<WeightFormat::kBf16, ScaleFormat::kNone>>(args, x, 0, args.num_rows);
  }
}

// A prepared row as fp32, times its scales.
void WidenRow(const ProductArgs& args, const std::byte* row, float* out) {
  const int64_t cols = args.weight->cols;
  const bool plain = args.activation == Activation::kPlain;
  if (!plain && args.block % kGroup != 0) {
    std::memset(out, 0, static_cast<size_t>(RoundUp(cols, kGroup)) * 4);
    for (int64_t k = 0; k < cols; ++k) out[k] = PreparedElement(args, row, k);
    return;
  }
  for (int64_t k = 0; k < cols; k += kGroup, out += kGroup) {
    Vec::Four four = Vec::Bf16s(row + k * 2);
    float scale = 1.0f;
    if (!plain) {
      const Two two =
          Interleave({{_mm512_loadu_si512(row + k * 2), _mm512_loadu_si512(row + k * 2 + 64)}});
      for (int i = 0; i < 4; ++i) {
        const Words words = two.v[i / 2];
        four.v[i] = Vec::WidenBf16s(i % 2 == 0 ? _mm512_castsi512_si256(words)
                                               : _mm512_extracti64x4_epi64(words, 1));
      }
      std::memcpy(&scale, row + ScaleOffset(cols) + k / args.block * 4, sizeof(scale));
    }
    for (int i = 0; i < 4; ++i) {
      Vec::Store(Vec::Mul(four.v[i], Vec::Set(scale)), out + i * kLanes);
    }
  }
}

constexpr int64_t kWideBytes = int64_t{256} << 10;

// In fp32, some rows at a time; they must fit into kWideBytes.
Doubts RunWidened(const ProductArgs& args, int64_t row_bytes) {
  alignas(64) float wide[kWideBytes / 4];
  const int64_t width = RoundUp(args.weight->cols, kGroup);
  const int64_t batch = kWideBytes / 4 / width;
  Doubts doubts;
  for (int64_t row = 0; row < args.num_rows; row += batch) {
    const int64_t count = Smaller(batch, args.num_rows - row);
    for (int64_t r = 0; r < count; ++r) {
      WidenRow(args, args.prepared + (row + r) * row_bytes, wide + r * width);
    }
    const Rows x{reinterpret_cast<const std::byte*>(wide), width * 4};
    const Doubts more = RunFloatPath(args, x, row, count);
    doubts.nan_code |= more.nan_code;
    doubts.not_finite |= more.not_finite;
  }
  return doubts;
}

void Product(const ProductArgs& args) {
  const WeightView& w = *args.weight;
  const int64_t row_bytes = PreparedRowBytes(args.activation, w.cols, args.block);
  const bool bf16 = IsBf16Exact(args);
  if (!HasVectorBlocks(w) || (!bf16 && RoundUp(w.cols, kGroup) * 4 > kWideBytes)) {
    for (int64_t n = args.begin; n < args.end; ++n) CarefulRow(args, n, row_bytes, PreparedElement);
    return;
  }
  const Rows x{args.prepared, row_bytes};
  const bool integers = TakesIntegerPath(args);
  const Doubts doubts = integers ? RunPath<IntegerPath<VnniDots>>(
                                       args, x.From(IntegerOffset(w.cols)), 0, args.num_rows)
                        : bf16 ? RunBf16Path(args, x)
                               : RunWidened(args, row_bytes);
  MendRows(args, doubts, row_bytes, PreparedElement);
  if (integers || bf16) MendScales(args, row_bytes, PreparedElement);
}

void UseProducts(Kernels* table) {
  table->prepared_row_bytes = PreparedRowBytes;
  table->prepare = Prepare;
  table->product = Product;
}

}  // namespace
}  // namespace dsv4::kernels::cpu
