// Sparse attention of one query row. Tiles of 64 rows with a running
// maximum per head; every row is decoded once for all heads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"

namespace dsv4::kernels::ref {
namespace {

constexpr int64_t kTile = 64;
constexpr size_t kAlignment = 64;

// The caller's scratch, cut up.
struct Scratch {
  float* rows;    // [kTile, width]
  float* q;       // [num_heads, width]
  float* values;  // [num_heads, width]: sums of p * v relative to the running maximum
  float* max;     // [num_heads]
  float* sum;     // [num_heads]: of the unrounded probabilities
};

int64_t ScratchFloats(int32_t num_heads, KvRowLayout layout) {
  return (kTile + 2 * int64_t{num_heads}) * layout.width + 2 * int64_t{num_heads};
}

Scratch Cut(const SparseAttentionArgs& args) {
  const auto address = reinterpret_cast<uintptr_t>(args.scratch);
  std::byte* const aligned = args.scratch + (kAlignment - address % kAlignment) % kAlignment;
  const int64_t width = args.layout.width;
  Scratch s{};
  s.rows = reinterpret_cast<float*>(aligned);
  s.q = s.rows + kTile * width;
  s.values = s.q + args.num_heads * width;
  s.max = s.values + args.num_heads * width;
  s.sum = s.max + args.num_heads;
  return s;
}

// values[c] += p[j] * rows[j][c], j ascending.
void AddWeighted(const float* p, const float* rows, int64_t num_rows, int64_t width,
                 float* values) {
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    Float4 s0 = LoadFloat4(values + c), s1 = LoadFloat4(values + c + 4);
    Float4 s2 = LoadFloat4(values + c + 8), s3 = LoadFloat4(values + c + 12);
    for (int64_t j = 0; j < num_rows; ++j) {
      const float* const row = rows + j * width + c;
      const Float4 factor = {p[j], p[j], p[j], p[j]};
      s0 += factor * LoadFloat4(row);
      s1 += factor * LoadFloat4(row + 4);
      s2 += factor * LoadFloat4(row + 8);
      s3 += factor * LoadFloat4(row + 12);
    }
    StoreFloat4(s0, values + c);
    StoreFloat4(s1, values + c + 4);
    StoreFloat4(s2, values + c + 8);
    StoreFloat4(s3, values + c + 12);
  }
  for (; c < width; ++c) {
    for (int64_t j = 0; j < num_rows; ++j) values[c] += p[j] * rows[j * width + c];
  }
}

void AddTile(const SparseAttentionArgs& args, const Scratch& s, int32_t head, int64_t num_rows) {
  const int64_t width = args.layout.width;
  float p[kTile];
  float max = s.max[head];
  for (int64_t j = 0; j < num_rows; ++j) {
    p[j] = Dot(s.q + head * width, s.rows + j * width, width) * args.scale;
    max = std::max(max, p[j]);
  }
  float* const values = s.values + head * width;
  const float correction = std::exp(s.max[head] - max);  // 0 at the first tile
  float sum = s.sum[head] * correction;
  for (int64_t c = 0; c < width; ++c) values[c] *= correction;
  for (int64_t j = 0; j < num_rows; ++j) {
    const float probability = std::exp(p[j] - max);
    sum += probability;
    p[j] = RoundToBf16(probability);
  }
  AddWeighted(p, s.rows, num_rows, width, values);
  s.max[head] = max;
  s.sum[head] = sum;
}

}  // namespace

int64_t SparseAttentionScratchBytes(int32_t num_heads, KvRowLayout layout) {
  return ScratchFloats(num_heads, layout) * static_cast<int64_t>(sizeof(float)) +
         static_cast<int64_t>(kAlignment);
}

void SparseAttention(const SparseAttentionArgs& args) {
  const int64_t width = args.layout.width;
  const Scratch s = Cut(args);
  DecodeBf16(args.q, args.num_heads * width, s.q);
  std::fill_n(s.values, args.num_heads * width, 0.0f);
  std::fill_n(s.max, args.num_heads, -std::numeric_limits<float>::infinity());
  std::fill_n(s.sum, args.num_heads, 0.0f);
  for (int64_t begin = 0; begin < args.num_rows; begin += kTile) {
    const int64_t n = std::min(kTile, args.num_rows - begin);
    for (int64_t j = 0; j < n; ++j)
      DecodeKvRow(args.rows[begin + j], args.layout, s.rows + j * width);
    for (int32_t head = 0; head < args.num_heads; ++head) AddTile(args, s, head, n);
  }
  for (int32_t head = 0; head < args.num_heads; ++head) {
    // A large sink overflows to infinity and the quotient is 0; a sink of -inf adds nothing.
    const float denominator = s.sum[head] + std::exp(args.sink[head] - s.max[head]);
    for (int64_t c = 0; c < width; ++c) {
      args.output[head * width + c] = ToBf16(s.values[head * width + c] / denominator);
    }
  }
}

}  // namespace dsv4::kernels::ref
