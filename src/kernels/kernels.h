// THE table of operations. Every instruction set fills one Kernels struct; ref/ is the scalar twin
// of every entry and the oracle of the tests.
//
// Contract of every entry:
// * Single-threaded, no allocation, no lock; safe to call from many threads on disjoint outputs.
// * A row of the result depends on that row's inputs alone: never on the number of rows, on the
//   neighbours or on how a caller split rows or columns. Callers may therefore cut the work
//   anywhere along rows and along the columns of a product.
// * bf16(x) is round-to-nearest-even. Accumulation is fp32 in one canonical order per instruction
// set.
// * Inputs and outputs do not overlap unless the entry says so. No alignment is demanded.
// * Shapes are right (ops/ checks them); a wrong one is our own mistake.
// Rounding points are those of docs/numerics.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numeric/bf16.h"
#include "tensor/kv_row.h"
#include "tensor/view.h"

namespace dsv4::kernels {

// Scales of quantised activations: the exact amax/448, or the next power of two.
enum class ActScale : uint8_t { kExact, kPowerOfTwo };

// How the activations of a product are taken.
enum class Activation : uint8_t {
  kQuantized,  // E4M3 codes with one scale per `block` columns (products with FP8 and FP4 weights)
  kPlain,      // bf16 as they are; FP8 weights are dequantised to bf16 first (wo_a)
};

struct PrepareArgs {
  const Bf16* x = nullptr;  // [num_rows, cols]
  int64_t x_stride = 0;     // elements between rows
  int64_t num_rows = 0;
  int64_t cols = 0;
  Activation activation = Activation::kPlain;
  ActScale scale = ActScale::kPowerOfTwo;
  int32_t block = 128;            // columns per activation scale; kQuantized only
  std::byte* prepared = nullptr;  // num_rows * prepared_row_bytes(…)
};

enum class OutputType : uint8_t { kBf16, kF32 };

struct ProductArgs {
  // Rows made by `prepare` of the same table with the same activation, scale, block and cols.
  const std::byte* prepared = nullptr;
  int64_t num_rows = 0;
  Activation activation = Activation::kPlain;
  ActScale scale = ActScale::kPowerOfTwo;
  int32_t block = 128;
  const WeightView* weight = nullptr;
  // The slice of weight rows (= output columns) to compute.
  int64_t begin = 0;
  int64_t end = 0;
  OutputType output_type = OutputType::kBf16;
  // Row r, weight row n goes to output[r * output_stride + (n - begin)], Bf16 or float.
  void* output = nullptr;
  int64_t output_stride = 0;
};

struct RopeArgs {
  // The rotary part of head h of row r is x[r * row_stride + h * head_stride + (0..width)).
  Bf16* x = nullptr;
  int64_t num_rows = 0;
  int64_t row_stride = 0;
  int32_t num_heads = 1;
  int64_t head_stride = 0;
  int32_t width = 0;           // even; pairs (x[2i], x[2i+1])
  const float* cos = nullptr;  // [num_rows, width / 2]
  const float* sin = nullptr;
  bool inverse = false;
};

struct HcSplitArgs {
  const float* mixes = nullptr;  // [num_rows, (2 + hc) * hc], already times the row's rsqrt
  int64_t num_rows = 0;
  int32_t hc = 4;
  int32_t sinkhorn_iters = 20;
  float eps = 1e-6f;
  const float* scale = nullptr;  // [3]
  const float* base = nullptr;   // [(2 + hc) * hc]
  float* pre = nullptr;          // [num_rows, hc]
  float* post = nullptr;         // [num_rows, hc]
  float* comb = nullptr;         // [num_rows, hc, hc] row-major
};

struct SparseAttentionArgs {
  const Bf16* q = nullptr;  // [num_heads, width]
  int32_t num_heads = 0;
  KvRowLayout layout;
  // The selected rows, in the order in which they are summed: window rows oldest first, then
  // entries ascending. Tiles of 64 are counted from the first.
  const std::byte* const* rows = nullptr;
  int64_t num_rows = 0;         // at least 1
  const float* sink = nullptr;  // [num_heads]
  float scale = 1.0f;
  Bf16* output = nullptr;        // [num_heads, width]; may be q itself
  std::byte* scratch = nullptr;  // sparse_attention_scratch_bytes(num_heads, layout)
};

struct IndexScoreArgs {
  const std::byte* q = nullptr;    // [num_heads] packed index rows
  const float* weights = nullptr;  // [num_heads], already scaled
  int32_t num_heads = 0;
  IndexRowLayout layout;
  // Key i is runs[i / run_length] + (i % run_length) * layout.row_bytes().
  const std::byte* const* runs = nullptr;
  int64_t run_length = 0;
  int64_t begin = 0;  // keys [begin, end) are scored
  int64_t end = 0;
  float* scores = nullptr;  // scores[i - begin]
};

struct PoolArgs {
  // Row r's `width` values of kv and of score (score already with ape). Rows that do not exist are
  // left out.
  const float* const* kv = nullptr;
  const float* const* score = nullptr;
  int32_t num_rows = 0;
  int32_t width = 0;
  Bf16* output = nullptr;  // [width]
};

enum class ScoreFunction : uint8_t { kSqrtSoftplus, kSigmoid, kSoftmax };

struct RouteArgs {
  const float* z = nullptr;  // [num_experts] of one token
  int32_t num_experts = 0;
  int32_t num_chosen = 0;
  ScoreFunction function = ScoreFunction::kSqrtSoftplus;
  const float* bias = nullptr;     // [num_experts] or null; selects only
  const int64_t* fixed = nullptr;  // [num_chosen] experts of a hash layer, or null
  float route_scale = 1.0f;
  float* scores = nullptr;    // [num_experts], out
  int32_t* chosen = nullptr;  // [num_chosen], out: by falling score + bias, ties smaller index
  float* weights = nullptr;   // [num_chosen], out, in the order of chosen
};

struct SwigluArgs {
  const Bf16* gate = nullptr;  // [num_rows, width]
  const Bf16* up = nullptr;    // [num_rows, width]
  int64_t num_rows = 0;
  int64_t width = 0;
  float limit = 0.0f;              // 0: no clamp
  const float* weights = nullptr;  // [num_rows], or null for 1
  Bf16* output = nullptr;          // [num_rows, width]; may be gate or up
};

struct Kernels {
  const char* name;  // "ref", "avx2", "avx512", …

  // E4M3 codes and scales of x [num_rows, cols] in blocks along columns (docs/numerics.md,
  // act_quant).
  void (*act_quant)(const Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale,
                    uint8_t* codes, float* scales);
  // The same, x replaced by bf16(code * scale).
  void (*act_quant_in_place)(Bf16* x, int64_t num_rows, int64_t cols, int32_t block,
                             ActScale scale);
  // E2M1 codes packed two to a byte and E8M0 scales per 32 (docs/numerics.md, fp4_act_quant):
  // x [num_rows, layout.width] to num_rows packed index rows.
  void (*pack_index_rows)(const Bf16* x, int64_t num_rows, IndexRowLayout layout,
                          std::byte* packed);
  void (*unpack_index_rows)(const std::byte* packed, int64_t num_rows, IndexRowLayout layout,
                            Bf16* x);
  // Quantises the first width - rope_width channels in blocks of 64 with power-of-two scales and
  // packs the row; with layout.packed false the quantised values are stored as bf16.
  void (*pack_kv_rows)(const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed);
  void (*unpack_kv_rows)(const std::byte* packed, int64_t num_rows, KvRowLayout layout, Bf16* x);

  // Products: y = x · Wᵀ. Activations are prepared once and used by any number of products.
  // The layout of a prepared row belongs to the table; its size does not depend on the row count.
  int64_t (*prepared_row_bytes)(Activation activation, int64_t cols, int32_t block);
  void (*prepare)(const PrepareArgs& args);
  void (*product)(const ProductArgs& args);

  // bf16(x * rsqrt(mean(x^2) + eps) * w) per row; w [cols] bf16, or null for 1 (the q heads). y may
  // be x.
  void (*rms_norm)(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps,
                   Bf16* y);
  // r[row] = rsqrt(mean(x^2) + eps).
  void (*rms_factor)(const Bf16* x, int64_t num_rows, int64_t cols, float eps, float* r);
  // Rotates in place (docs/numerics.md, rotary embedding).
  void (*rope)(const RopeArgs& args);
  // Sylvester–Hadamard transform of each row, times n^-1/2, one rounding; n a power of two. In
  // place.
  void (*hadamard)(Bf16* x, int64_t num_rows, int32_t n);

  // Hyper-connections. h [num_rows, hc, dim], x [num_rows, dim].
  void (*hc_split)(const HcSplitArgs& args);
  // pre [num_rows, hc] = sigmoid(mixes * scale + base) + eps.
  void (*hc_head_pre)(const float* mixes, int64_t num_rows, int32_t hc, float scale,
                      const float* base, float eps, float* pre);
  // x = bf16(sum_j pre_j h_j).
  void (*hc_combine)(const Bf16* h, const float* pre, int64_t num_rows, int32_t hc, int64_t dim,
                     Bf16* x);
  // h_k = bf16(post_k x + sum_j comb[j][k] h_j), in place.
  void (*hc_post)(const Bf16* x, const float* post, const float* comb, int64_t num_rows, int32_t hc,
                  int64_t dim, Bf16* h);

  // One query row over its selected rows (docs/numerics.md, sparse attention).
  int64_t (*sparse_attention_scratch_bytes)(int32_t num_heads, KvRowLayout layout);
  void (*sparse_attention)(const SparseAttentionArgs& args);

  // sum_h relu(q_h · k_i) * w_h in fp32.
  void (*index_scores)(const IndexScoreArgs& args);
  // The min(k, n) largest of scores[0..n) as ascending indices; among equals the smaller index
  // wins. scratch: n indices.
  void (*top_k)(const float* scores, int64_t n, int64_t k, int32_t* indices, int32_t* scratch);
  // bf16(sum_r softmax_r(score) * kv) per channel.
  void (*pool)(const PoolArgs& args);

  // Router of one token.
  void (*route)(const RouteArgs& args);
  // bf16(weight * silu(min(g, limit)) * clamp(u, ±limit)).
  void (*swiglu)(const SwigluArgs& args);
};

}  // namespace dsv4::kernels
