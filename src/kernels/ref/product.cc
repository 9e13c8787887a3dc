// Products y = x · Wᵀ. Per K block the exact products are summed in 16 fp32 lanes
// and a fixed tree, then acc += blocksum * scale_a * scale_w in K order; without block scales K is
// one block.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4::kernels::ref {
namespace {

constexpr int64_t kRowTile = 32;  // rows that share one decoding of a weight chunk
constexpr int64_t kChunk = 128;   // weights decoded at a time; a multiple of kLanes

int64_t NumBlocks(int64_t cols, int64_t block) { return (cols + block - 1) / block; }

float LoadF32(const std::byte* p) {
  float value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

void StoreF32(float value, std::byte* p, int64_t at) {
  std::memcpy(p + at * static_cast<int64_t>(sizeof(float)), &value, sizeof(value));
}

// A prepared row: cols fp32 values (codes decoded, not scaled), then one fp32 scale per block.
struct PreparedRow {
  const std::byte* bytes;
  int64_t cols;

  float Scale(int64_t block_idx) const {
    return LoadF32(bytes + (cols + block_idx) * static_cast<int64_t>(sizeof(float)));
  }
};

float WeightScale(const WeightView& w, int64_t row, int64_t k) {
  const int64_t at = row / w.block_rows * w.scale_cols() + k / w.block_cols;
  switch (w.scale_format) {
    case ScaleFormat::kNone:
      return 1.0f;
    case ScaleFormat::kE8m0:
      return DecodeE8m0(std::to_integer<uint8_t>(w.scale[at]));
    case ScaleFormat::kF32:
      return LoadF32(w.scale + at * static_cast<int64_t>(sizeof(float)));
  }
  return 1.0f;
}

// Both values of a packed byte.
using Pair = std::array<float, 2>;
constexpr std::array<Pair, 256> kE2m1Pairs = [] {
  std::array<Pair, 256> pairs{};
  for (unsigned codes = 0; codes < 256; ++codes) {
    pairs[codes] = {DecodeE2m1(static_cast<uint8_t>(codes & 0xFu)),
                    DecodeE2m1(static_cast<uint8_t>(codes >> 4))};
  }
  return pairs;
}();

// Weights [k, k + n) of a row as stored, without scale. For FP4 k and n are even.
void DecodeWeights(const WeightView& w, int64_t row, int64_t k, int64_t n, float* out) {
  const std::byte* const p = w.data + row * w.row_bytes();
  switch (w.format) {
    case WeightFormat::kFp8:
      for (int64_t i = 0; i < n; ++i) out[i] = kE4m3Values[std::to_integer<uint8_t>(p[k + i])];
      return;
    case WeightFormat::kFp4:
      for (int64_t i = 0; i < n; i += 2) {
        std::memcpy(out + i, &kE2m1Pairs[std::to_integer<uint8_t>(p[(k + i) / 2])], sizeof(Pair));
      }
      return;
    case WeightFormat::kBf16:
      for (int64_t i = 0; i < n; ++i) {
        Bf16 value;
        std::memcpy(&value, p + (k + i) * 2, sizeof(value));
        out[i] = ToFloat(value);
      }
      return;
    case WeightFormat::kF32:
      std::memcpy(out, p + k * 4, static_cast<size_t>(n) * sizeof(float));
      return;
  }
}

// The same dequantised to bf16, as kPlain takes quantised weights.
void DequantizeWeights(const WeightView& w, int64_t row, int64_t k, int64_t n, float* out) {
  DecodeWeights(w, row, k, n, out);
  if (w.scale_format == ScaleFormat::kNone) return;
  for (int64_t i = 0; i < n;) {
    const float scale = WeightScale(w, row, k + i);
    const int64_t end = std::min(n, i + w.block_cols - (k + i) % w.block_cols);
    for (; i < end; ++i) out[i] = RoundToBf16(out[i] * scale);
  }
}

// Up to kRowTile prepared rows against one weight row.
class RowTile {
 public:
  RowTile(const ProductArgs& args, int64_t begin)
      : args_(args),
        w_(*args.weight),
        begin_(begin),
        num_rows_(std::min(kRowTile, args.num_rows - begin)),
        row_bytes_(PreparedRowBytes(args.activation, w_.cols, args.block)) {}

  void Compute(int64_t weight_row) {
    std::fill_n(acc_, num_rows_, 0.0f);
    if (args_.activation == Activation::kPlain) {
      SumBlock(weight_row, 0, w_.cols);
      for (int64_t r = 0; r < num_rows_; ++r) acc_[r] = lanes_[r].Sum();
    } else {
      const int64_t block = std::min(args_.block, w_.block_cols);
      for (int64_t k = 0; k < w_.cols; k += block) AddScaledBlock(weight_row, k, block);
    }
    Store(weight_row);
  }

 private:
  PreparedRow Row(int64_t r) const { return {args_.prepared + (begin_ + r) * row_bytes_, w_.cols}; }

  void AddScaledBlock(int64_t weight_row, int64_t k, int64_t block) {
    SumBlock(weight_row, k, std::min(w_.cols, k + block));
    const float scale = WeightScale(w_, weight_row, k);
    for (int64_t r = 0; r < num_rows_; ++r) {
      acc_[r] += lanes_[r].Sum() * Row(r).Scale(k / args_.block) * scale;
    }
  }

  // Leaves the lanes' sums over [begin, end) of every row in lanes_.
  void SumBlock(int64_t weight_row, int64_t begin, int64_t end) {
    float weights[kChunk];
    std::fill_n(lanes_, num_rows_, Lanes{});
    for (int64_t k = begin; k < end; k += kChunk) {
      const int64_t n = std::min(kChunk, end - k);
      if (args_.activation == Activation::kPlain) {
        DequantizeWeights(w_, weight_row, k, n, weights);
      } else {
        DecodeWeights(w_, weight_row, k, n, weights);
      }
      for (int64_t r = 0; r < num_rows_; ++r) {
        lanes_[r].Add(weights, Row(r).bytes + k * static_cast<int64_t>(sizeof(float)), n);
      }
    }
  }

  void Store(int64_t weight_row) const {
    for (int64_t r = 0; r < num_rows_; ++r) {
      const int64_t at = (begin_ + r) * args_.output_stride + weight_row - args_.begin;
      if (args_.output_type == OutputType::kBf16) {
        static_cast<Bf16*>(args_.output)[at] = ToBf16(acc_[r]);
      } else {
        static_cast<float*>(args_.output)[at] = acc_[r];
      }
    }
  }

  const ProductArgs& args_;
  const WeightView& w_;
  const int64_t begin_;
  const int64_t num_rows_;
  const int64_t row_bytes_;
  float acc_[kRowTile];
  Lanes lanes_[kRowTile];
};

}  // namespace

int64_t PreparedRowBytes(Activation activation, int64_t cols, int32_t block) {
  const int64_t scales = activation == Activation::kQuantized ? NumBlocks(cols, block) : 0;
  return (cols + scales) * static_cast<int64_t>(sizeof(float));
}

void Prepare(const PrepareArgs& args) {
  const bool quantized = args.activation == Activation::kQuantized;
  const int64_t block = quantized ? args.block : std::max<int64_t>(args.cols, 1);
  const int64_t row_bytes = PreparedRowBytes(args.activation, args.cols, args.block);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const Bf16* const x = args.x + row * args.x_stride;
    std::byte* const prepared = args.prepared + row * row_bytes;
    for (int64_t begin = 0; begin < args.cols; begin += block) {
      const int64_t end = std::min(args.cols, begin + block);
      const float scale = quantized ? BlockScale(x + begin, end - begin, args.scale) : 1.0f;
      for (int64_t k = begin; k < end; ++k) {
        const float value = ToFloat(x[k]);
        StoreF32(quantized ? kE4m3Values[EncodeE4m3(value / scale)] : value, prepared, k);
      }
      if (quantized) StoreF32(scale, prepared, args.cols + begin / block);
    }
  }
}

void Product(const ProductArgs& args) {
  const WeightView& w = *args.weight;
  if (args.activation == Activation::kQuantized) {
    DSV4_CHECK(w.format == WeightFormat::kFp8 || w.format == WeightFormat::kFp4,
               "quantised activations with unquantised weights");
    DSV4_CHECK(args.block % w.block_cols == 0 || w.block_cols % args.block == 0,
               "activation block {} against weight block {}", args.block, w.block_cols);
  }
  for (int64_t begin = 0; begin < args.num_rows; begin += kRowTile) {
    RowTile tile(args, begin);
    for (int64_t n = args.begin; n < args.end; ++n) tile.Compute(n);
  }
}

}  // namespace dsv4::kernels::ref
