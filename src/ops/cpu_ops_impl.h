// The class behind MakeCpuOps; its methods are spread over cpu_ops.cc (rows and products),
// cpu_ops_attention.cc and cpu_ops_experts.cc.
#pragma once

#include <chrono>

#include "ops/claims.h"
#include "ops/ops.h"
#include "platform/thread_pool.h"

namespace dsv4 {

// Rows of the batch grouped by the expert they chose: a pair is a (row, slot).
struct ExpertGroups {
  int64_t num_pairs = 0;
  int64_t* begin = nullptr;   // [num_experts + 1]: pairs of expert e are begin[e]..begin[e + 1]
  int64_t* row = nullptr;     // [num_pairs]
  int64_t* slot = nullptr;    // [num_pairs]
  int64_t* place = nullptr;   // [T, num_chosen]: the pair of a (row, slot)
  int32_t* active = nullptr;  // experts with rows, ascending
  int64_t num_active = 0;
};

// One task of the experts' products: weight rows [begin, end) of an expert for all of its pairs.
struct ExpertSlice {
  int32_t expert = 0;
  int64_t product = 0;  // which of the products that run side by side
  int64_t begin = 0;
  int64_t end = 0;
  int64_t pair = 0;  // the expert's first pair
  int64_t num_pairs = 0;
};

class CpuOps : public Ops {
 public:
  CpuOps(const kernels::Kernels& kernels, int num_threads)
      : kernels_(kernels), pool_(num_threads) {}

  const char* kernels_name() const override { return kernels_.name; }
  int num_threads() const override { return pool_.num_threads(); }
  void set_profile(OpProfile* profile) override { profile_ = profile; }

  void Embed(std::span<const int32_t> tokens, const WeightView& embed, int32_t hc,
             Bf16* h) override;
  void RmsNorm(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps,
               Bf16* y) override;
  PreparedRows Prepare(const Bf16* x, int64_t num_rows, int64_t cols, int64_t stride,
                       const ActivationSpec& spec, Workspace& workspace) override;
  void LinearSlice(const PreparedRows& x, const WeightView& weight, int64_t begin, int64_t end,
                   Bf16* y, int64_t stride) override;
  void LinearF32(const PreparedRows& x, const WeightView& weight, float* y) override;
  void HyperPre(const HyperPreArgs& args, Workspace& workspace) override;
  void HyperPost(const Bf16* x, const float* post, const float* comb, int64_t num_rows, int32_t hc,
                 int64_t dim, Bf16* h) override;
  void HyperHead(const HyperHeadArgs& args, Workspace& workspace) override;
  void Rope(Bf16* x, int64_t num_rows, int32_t num_heads, int32_t width, const RopeTable& table,
            bool inverse) override;
  void Hadamard(Bf16* x, int64_t num_rows, int32_t n) override;
  void PackKvRows(const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed) override;
  void UnpackKvRows(const std::byte* packed, int64_t num_rows, KvRowLayout layout,
                    Bf16* x) override;
  void PackIndexRows(const Bf16* x, int64_t num_rows, IndexRowLayout layout,
                     std::byte* packed) override;
  void UnpackIndexRows(const std::byte* packed, int64_t num_rows, IndexRowLayout layout,
                       Bf16* x) override;
  void Attention(const AttentionArgs& args, Workspace& workspace) override;
  void IndexSelect(const IndexSelectArgs& args, Workspace& workspace) override;
  void Pool(std::span<const PoolRow> rows, int32_t width, Bf16* entries) override;
  void Route(const RouteRowsArgs& args, Workspace& workspace) override;
  void Experts(const ExpertsArgs& args, Workspace& workspace) override;
  void AddPeriodic(float* y, int64_t cols, std::span<const int64_t> positions, const float* table,
                   int64_t period) override;
  void Round(const float* x, int64_t n, Bf16* y) override;
  void AddToCopies(const Bf16* x, int64_t num_rows, int32_t hc, int64_t dim, Bf16* h) override;

 private:
  // Adds the time from here to the end of the scope to the profile, where there is one. `calls` is
  // 0 in all but one of the parts of an operation.
  class Timed {
   public:
    Timed(OpProfile* profile, OpKind kind, int64_t bytes = 0, int64_t flops = 0, int64_t calls = 1)
        : row_(profile == nullptr ? nullptr : &(*profile)[kind]) {
      if (row_ == nullptr) return;
      row_->calls += calls;
      row_->bytes += bytes;
      row_->flops += flops;
      start_ = std::chrono::steady_clock::now();
    }
    ~Timed() {
      if (row_ != nullptr) row_->ns += (std::chrono::steady_clock::now() - start_).count();
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    OpProfile::Row* row_;
    std::chrono::steady_clock::time_point start_;
  };

  // For over rows of `work_per_row` steps: body(begin, end, thread).
  template <class Body>
  void ForRows(int64_t num_rows, int64_t work_per_row, Body&& body) {
    pool_.For(num_rows, Grain(num_rows, work_per_row, num_threads()), body);
  }
  void Product(const PreparedRows& x, const WeightView& weight, int64_t begin, int64_t end,
               kernels::OutputType type, void* y, int64_t stride);
  // body(slice) for slices of `num_weight_rows` rows of every active expert, `products` of them
  // side by side.
  template <class Body>
  void ForExpertSlices(const ExpertGroups& groups, int64_t num_weight_rows, int64_t products,
                       Body&& body);
  // The prepared rows in pair order, and each pair's weight.
  PreparedRows GatherPairs(const ExpertsArgs& args, const ExpertGroups& groups, float* weights,
                           Workspace& workspace);
  void SumPairs(const ExpertsArgs& args, const ExpertGroups& groups, const Bf16* outputs,
                int64_t dim);
  // mixes [num_rows, fn.rows] = (fn · flatten(h)) * rsqrt(mean(h^2) + eps), a part of `kind`.
  float* HyperMixes(OpKind kind, const Bf16* h, int64_t num_rows, const WeightView& fn, float eps,
                    Workspace& workspace);

  const kernels::Kernels& kernels_;
  ThreadPool pool_;
  OpProfile* profile_ = nullptr;
};

}  // namespace dsv4
