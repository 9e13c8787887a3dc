// The scalar twin of every entry of the kernel table: literal to docs/numerics.md, and the oracle
// of the other sets. Contracts stand in kernels.h.
#pragma once

#include "kernels/kernels.h"

namespace dsv4::kernels::ref {

const Kernels& Table();

// quant.cc
inline constexpr float kE4m3MinAmax = 1e-4f;
// The scale of a block whose largest magnitude, at least kE4m3MinAmax, is `amax`.
float ScaleOfAmax(float amax, ActScale scale);
// Of one block of n values. Divide by it: without a scale format, multiplying by 1/scale differs.
float BlockScale(const Bf16* x, int64_t n, ActScale scale);
void ActQuant(const Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale,
              uint8_t* codes, float* scales);
void ActQuantInPlace(Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale);
void PackIndexRows(const Bf16* x, int64_t num_rows, IndexRowLayout layout, std::byte* packed);
void UnpackIndexRows(const std::byte* packed, int64_t num_rows, IndexRowLayout layout, Bf16* x);
void PackKvRows(const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed);
void UnpackKvRows(const std::byte* packed, int64_t num_rows, KvRowLayout layout, Bf16* x);
// The same values in fp32, of one row.
void DecodeIndexRow(const std::byte* packed, IndexRowLayout layout, float* x);
void DecodeKvRow(const std::byte* packed, KvRowLayout layout, float* x);

// product.cc
int64_t PreparedRowBytes(Activation activation, int64_t cols, int32_t block);
void Prepare(const PrepareArgs& args);
void Product(const ProductArgs& args);

// norm.cc
void RmsNorm(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps, Bf16* y);
void RmsFactor(const Bf16* x, int64_t num_rows, int64_t cols, float eps, float* r);
void Rope(const RopeArgs& args);
void Hadamard(Bf16* x, int64_t num_rows, int32_t n);

// hyper_connection.cc
void HcSplit(const HcSplitArgs& args);
void HcHeadPre(const float* mixes, int64_t num_rows, int32_t hc, float scale, const float* base,
               float eps, float* pre);
void HcCombine(const Bf16* h, const float* pre, int64_t num_rows, int32_t hc, int64_t dim, Bf16* x);
void HcPost(const Bf16* x, const float* post, const float* comb, int64_t num_rows, int32_t hc,
            int64_t dim, Bf16* h);

// attention.cc
int64_t SparseAttentionScratchBytes(int32_t num_heads, KvRowLayout layout);
void SparseAttention(const SparseAttentionArgs& args);

// indexer.cc
void IndexScores(const IndexScoreArgs& args);
void TopK(const float* scores, int64_t n, int64_t k, int32_t* indices, int32_t* scratch);
void Pool(const PoolArgs& args);

// moe.cc
void Route(const RouteArgs& args);
void Swiglu(const SwigluArgs& args);

}  // namespace dsv4::kernels::ref
