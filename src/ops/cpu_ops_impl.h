// The class behind MakeCpuOps; its methods are spread over cpu_ops.cc (rows and products),
// cpu_ops_attention.cc and cpu_ops_experts.cc.
#pragma once

#include "ops/ops.h"
#include "platform/thread_pool.h"

namespace dsv4 {

class CpuOps : public Ops {
 public:
  CpuOps(const kernels::Kernels& kernels, int num_threads)
      : kernels_(kernels), pool_(num_threads) {}

  const char* kernels_name() const override { return kernels_.name; }
  int num_threads() const override { return pool_.num_threads(); }

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
  // Items per claim so that one claim is worth about kClaimWork elementary steps and every thread
  // gets some.
  static constexpr int64_t kClaimWork = 1 << 15;
  int64_t Grain(int64_t count, int64_t work_per_item) const;
  // For over rows of `work_per_row` steps: body(begin, end, thread).
  template <class Body>
  void ForRows(int64_t num_rows, int64_t work_per_row, Body&& body) {
    pool_.For(num_rows, Grain(num_rows, work_per_row), body);
  }
  void Product(const PreparedRows& x, const WeightView& weight, int64_t begin, int64_t end,
               kernels::OutputType type, void* y, int64_t stride);
  // mixes [num_rows, fn.rows] = (fn · flatten(h)) * rsqrt(mean(h^2) + eps).
  float* HyperMixes(const Bf16* h, int64_t num_rows, const WeightView& fn, float eps,
                    Workspace& workspace);

  const kernels::Kernels& kernels_;
  ThreadPool pool_;
};

}  // namespace dsv4
