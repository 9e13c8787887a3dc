// The indexer's scores and choice, and the compressor's pooling.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/ref.h"

namespace dsv4::kernels::ref {
namespace {

constexpr int64_t kMaxIndexWidth = 2048;
constexpr int64_t kKeyBuffer = 8192;  // floats
constexpr int64_t kMaxKeys = 64;

// NaN counts as -inf: the order must be total.
float SortKey(float score) {
  return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
}

}  // namespace

void IndexScores(const IndexScoreArgs& args) {
  const int64_t width = args.layout.width;
  DSV4_CHECK(width <= kMaxIndexWidth, "index width {}", width);
  float keys[kKeyBuffer];
  float q[kMaxIndexWidth];
  // Heads are added in their order for every key, so the tiling of keys does not show.
  const int64_t tile = std::min(kMaxKeys, kKeyBuffer / width);
  for (int64_t begin = args.begin; begin < args.end; begin += tile) {
    const int64_t n = std::min(tile, args.end - begin);
    float* const scores = args.scores + (begin - args.begin);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t key = begin + i;
      DecodeIndexRow(
          args.runs[key / args.run_length] + (key % args.run_length) * args.layout.row_bytes(),
          args.layout, keys + i * width);
    }
    std::fill_n(scores, n, 0.0f);
    for (int32_t head = 0; head < args.num_heads; ++head) {
      DecodeIndexRow(args.q + head * args.layout.row_bytes(), args.layout, q);
      for (int64_t i = 0; i < n; ++i) {
        scores[i] += std::max(Dot(q, keys + i * width, width), 0.0f) * args.weights[head];
      }
    }
  }
}

void TopK(const float* scores, int64_t n, int64_t k, int32_t* indices, int32_t* scratch) {
  k = std::min(k, n);
  if (k <= 0) return;
  std::iota(scratch, scratch + n, 0);
  if (k < n) {
    std::nth_element(scratch, scratch + k, scratch + n, [scores](int32_t a, int32_t b) {
      const float score_a = SortKey(scores[a]);
      const float score_b = SortKey(scores[b]);
      return score_a > score_b || (score_a == score_b && a < b);
    });
    std::sort(scratch, scratch + k);
  }
  std::copy_n(scratch, k, indices);
}

void Pool(const PoolArgs& args) {
  constexpr int32_t kChunk = 64;
  for (int32_t begin = 0; begin < args.width; begin += kChunk) {
    const int32_t n = std::min(kChunk, args.width - begin);
    float max[kChunk];
    float sum[kChunk] = {};
    float value[kChunk] = {};
    std::fill_n(max, n, -std::numeric_limits<float>::infinity());
    for (int32_t r = 0; r < args.num_rows; ++r) {
      for (int32_t c = 0; c < n; ++c) max[c] = std::max(max[c], args.score[r][begin + c]);
    }
    for (int32_t r = 0; r < args.num_rows; ++r) {
      for (int32_t c = 0; c < n; ++c) {
        const float p = std::exp(args.score[r][begin + c] - max[c]);
        sum[c] += p;
        value[c] += p * args.kv[r][begin + c];
      }
    }
    for (int32_t c = 0; c < n; ++c) args.output[begin + c] = ToBf16(value[c] / sum[c]);
  }
}

}  // namespace dsv4::kernels::ref
