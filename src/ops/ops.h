// The backend interface of the forward pass: each operation over a whole batch. A backend (cpu_ops)
// implements this and nothing else. All pointers are the backend's memory; T is the number of rows.
//
// Promise of every operation: a row of the result depends on that row's inputs alone, never on T,
// on the neighbours or on the number of threads. Shapes are checked here (DSV4_CHECK); rounding
// points are those of docs/numerics.md. Scratch comes from the Workspace handed in. One caller at a
// time.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kernels.h"
#include "numeric/bf16.h"
#include "ops/op_profile.h"
#include "tensor/kv_row.h"
#include "tensor/view.h"
#include "tensor/workspace.h"

namespace dsv4 {

class ReadAhead;  // platform/read_ahead.h

// How a product takes its activations (see kernels::PrepareArgs).
struct ActivationSpec {
  kernels::Activation activation = kernels::Activation::kPlain;
  kernels::ActScale scale = kernels::ActScale::kPowerOfTwo;
  int32_t block = 128;
};

// Activations made ready for products, in the workspace; used by any number of products.
struct PreparedRows {
  const std::byte* data = nullptr;
  int64_t row_bytes = 0;
  int64_t num_rows = 0;
  int64_t cols = 0;
  ActivationSpec spec;
};

struct HyperPreArgs {
  const Bf16* h = nullptr;  // [T, hc, dim]
  int64_t num_rows = 0;
  int32_t hc = 4;
  int64_t dim = 0;
  WeightView fn;  // F32 [(2 + hc) * hc, hc * dim]
  const float* base = nullptr;
  const float* scale = nullptr;  // [3]
  int32_t sinkhorn_iters = 20;
  float norm_eps = 1e-6f;
  float hc_eps = 1e-6f;
  Bf16* x = nullptr;      // [T, dim], out
  float* post = nullptr;  // [T, hc], out
  float* comb = nullptr;  // [T, hc, hc], out
};

struct HyperHeadArgs {
  const Bf16* h = nullptr;  // [T, hc, dim]
  int64_t num_rows = 0;
  int32_t hc = 4;
  int64_t dim = 0;
  WeightView fn;  // F32 [hc, hc * dim]
  const float* base = nullptr;
  float scale = 0.0f;
  float norm_eps = 1e-6f;
  float hc_eps = 1e-6f;
  Bf16* x = nullptr;  // [T, dim], out
};

// cos and sin of every row's angles, [T, width / 2].
struct RopeTable {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int32_t width = 0;
};

// Where the KV rows of one sequence lie during a step. Row of position p: fresh[p - start] where
// p >= start, else ring[p % window]. Entry i: pages[i / entries_per_page], place i %
// entries_per_page.
struct KvSource {
  const std::byte* ring = nullptr;   // [window] packed rows
  const std::byte* fresh = nullptr;  // packed rows of this step
  int64_t start = 0;
  int32_t window = 0;
  const std::byte* const* entry_pages = nullptr;  // first entry of each page; null without entries
  int32_t entries_per_page = 0;
};

// One query row's place.
struct QueryRow {
  int32_t source = 0;    // index into the sources
  int64_t position = 0;  // sees tokens (position - window, position] and its entries
  // Entries: `selected` holds num_entries ascending indices, or is null for the first num_entries.
  const int32_t* selected = nullptr;
  int64_t num_entries = 0;
};

struct AttentionArgs {
  Bf16* q = nullptr;  // [T, num_heads, width]; replaced by the output
  int32_t num_heads = 0;
  KvRowLayout layout;
  std::span<const KvSource> sources;
  std::span<const QueryRow> rows;  // [T]
  const float* sink = nullptr;     // [num_heads]
  float scale = 1.0f;
};

// One query row of the indexer.
struct IndexRow {
  const std::byte* const* pages = nullptr;  // first key of each page
  int64_t num_entries = 0;                  // keys 0..num_entries may be chosen
  int32_t* selected = nullptr;              // [min(top_k, num_entries)] ascending, out
  float* scores = nullptr;                  // [num_entries], out; null where nobody wants them
};

struct IndexSelectArgs {
  const std::byte* q = nullptr;    // [T, num_heads] packed index rows
  const float* weights = nullptr;  // [T, num_heads], scaled
  int32_t num_heads = 0;
  IndexRowLayout layout;
  int32_t entries_per_page = 0;
  int32_t top_k = 0;
  std::span<const IndexRow> rows;  // [T]
};

// One entry to make: its raw rows in order, kv and score (with ape) each of `width` channels.
struct PoolRow {
  const float* const* kv = nullptr;
  const float* const* score = nullptr;
  int32_t num_rows = 0;
};

struct RouteRowsArgs {
  const float* z = nullptr;  // [T, num_experts]
  int64_t num_rows = 0;
  int32_t num_experts = 0;
  int32_t num_chosen = 0;
  kernels::ScoreFunction function = kernels::ScoreFunction::kSqrtSoftplus;
  const float* bias = nullptr;       // [num_experts] or null
  const int64_t* tid2eid = nullptr;  // [vocab, num_chosen] of a hash layer, or null
  const int32_t* tokens = nullptr;   // [T], for tid2eid
  float route_scale = 1.0f;
  int32_t* chosen = nullptr;  // [T, num_chosen], out
  float* weights = nullptr;   // [T, num_chosen], out
};

struct ExpertView {
  WeightView w1, w2, w3;  // gate, down, up
};

struct ExpertsArgs {
  PreparedRows x;                       // [T, dim], for w1 and w3
  std::span<const ExpertView> experts;  // [num_experts]
  const int32_t* chosen = nullptr;      // [T, num_chosen], indices into experts
  const float* weights = nullptr;       // [T, num_chosen], or null for 1
  int32_t num_chosen = 0;
  ActivationSpec hidden_spec;  // of the second product's activations
  float swiglu_limit = 0.0f;   // 0: no clamp
  // out[t] += the bf16 outputs of its experts by ascending expert, in fp32. [T, dim]
  float* out = nullptr;

  // Reads the chosen experts from disk in the order of their use; null where none need be read.
  ReadAhead* read_ahead = nullptr;
  // [num_experts], in and out: which were asked for before and have been in memory since. Null
  // where weights do not stay in memory: each use is asked for.
  uint8_t* asked = nullptr;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual const char* kernels_name() const = 0;
  virtual int num_threads() const = 0;
  // Adds the time of every following operation to *profile; null (as at first) for none.
  virtual void set_profile(OpProfile* profile) = 0;

  // h [T, hc, dim] = embed[token] repeated hc times. `embed` bf16 [vocab, dim].
  virtual void Embed(std::span<const int32_t> tokens, const WeightView& embed, int32_t hc,
                     Bf16* h) = 0;
  // y = RMSNorm(x) * w per row, x [T, cols]; w null for 1; y may be x.
  virtual void RmsNorm(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps,
                       Bf16* y) = 0;

  // Rows of x [T, cols] with `stride` elements between them, made ready for products.
  virtual PreparedRows Prepare(const Bf16* x, int64_t num_rows, int64_t cols, int64_t stride,
                               const ActivationSpec& spec, Workspace& workspace) = 0;
  // Rows [begin, end) of `weight` on x: y[t * stride + (n - begin)], rounded to bf16.
  virtual void LinearSlice(const PreparedRows& x, const WeightView& weight, int64_t begin,
                           int64_t end, Bf16* y, int64_t stride) = 0;
  // y [T, weight.rows] bf16.
  void Linear(const PreparedRows& x, const WeightView& weight, Bf16* y) {
    LinearSlice(x, weight, 0, weight.rows, y, weight.rows);
  }
  // y [T, weight.rows], not rounded.
  virtual void LinearF32(const PreparedRows& x, const WeightView& weight, float* y) = 0;

  virtual void HyperPre(const HyperPreArgs& args, Workspace& workspace) = 0;
  // h_k = bf16(post_k x + sum_j comb[j][k] h_j) in place; h [T, hc, dim], x [T, dim].
  virtual void HyperPost(const Bf16* x, const float* post, const float* comb, int64_t num_rows,
                         int32_t hc, int64_t dim, Bf16* h) = 0;
  virtual void HyperHead(const HyperHeadArgs& args, Workspace& workspace) = 0;

  // Rotates the last table.width channels of each of num_heads heads of `width` channels; x
  // [T, num_heads, width] in place.
  virtual void Rope(Bf16* x, int64_t num_rows, int32_t num_heads, int32_t width,
                    const RopeTable& table, bool inverse) = 0;
  virtual void Hadamard(Bf16* x, int64_t num_rows, int32_t n) = 0;
  virtual void PackKvRows(const Bf16* x, int64_t num_rows, KvRowLayout layout,
                          std::byte* packed) = 0;
  virtual void UnpackKvRows(const std::byte* packed, int64_t num_rows, KvRowLayout layout,
                            Bf16* x) = 0;
  virtual void PackIndexRows(const Bf16* x, int64_t num_rows, IndexRowLayout layout,
                             std::byte* packed) = 0;
  virtual void UnpackIndexRows(const std::byte* packed, int64_t num_rows, IndexRowLayout layout,
                               Bf16* x) = 0;

  virtual void Attention(const AttentionArgs& args, Workspace& workspace) = 0;
  virtual void IndexSelect(const IndexSelectArgs& args, Workspace& workspace) = 0;
  // entries [rows.size(), width] = softmax-weighted sums per channel, rounded to bf16.
  virtual void Pool(std::span<const PoolRow> rows, int32_t width, Bf16* entries) = 0;

  virtual void Route(const RouteRowsArgs& args, Workspace& workspace) = 0;
  virtual void Experts(const ExpertsArgs& args, Workspace& workspace) = 0;
  // y[t] += table[positions[t] mod period], y [T, cols], table [period, cols].
  virtual void AddPeriodic(float* y, int64_t cols, std::span<const int64_t> positions,
                           const float* table, int64_t period) = 0;
  // y = bf16(x), n elements.
  virtual void Round(const float* x, int64_t n, Bf16* y) = 0;
  // h = bf16(h + x) where x [T, dim] is repeated over the hc copies of h [T, hc, dim].
  virtual void AddToCopies(const Bf16* x, int64_t num_rows, int32_t hc, int64_t dim, Bf16* h) = 0;
};

}  // namespace dsv4
