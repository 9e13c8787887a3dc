// What one forward step carries through its layers. Internal to model/.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "model/batch.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/workspace.h"

namespace dsv4::model {

struct Step {
  const ModelConfig& config;
  Ops& ops;
  Workspace& workspace;
  const Batch& batch;
  KvCache& cache;
  TapSink* taps = nullptr;

  // Per row of the batch.
  std::span<const int64_t> positions;
  // Per run: its first row in the batch.
  std::span<const int64_t> run_begin;
  // Angles of the rows' positions: layers without compression, layers with it.
  RopeTable window_rope;
  RopeTable compressed_rope;
  // Frequencies behind compressed_rope, for positions of entries.
  std::span<const float> compressed_frequencies;
  // See ExpertsArgs. Flags of all blocks' experts; empty where weights do not stay in memory.
  ReadAhead* read_ahead = nullptr;
  std::span<uint8_t> asked_experts;

  int64_t num_rows() const { return batch.num_rows(); }
  const RopeTable& rope(int32_t ratio) const { return ratio == 0 ? window_rope : compressed_rope; }
  // How a product with this weight takes its activations (docs/numerics.md, products).
  ActivationSpec SpecFor(const WeightView& weight) const {
    if (weight.format == WeightFormat::kFp8 || weight.format == WeightFormat::kFp4) {
      return {
          kernels::Activation::kQuantized,
          config.power_of_two_scales ? kernels::ActScale::kPowerOfTwo : kernels::ActScale::kExact,
          config.weight_block_cols};
    }
    return {};
  }

  // Block names: L0…, then M0… for MTP blocks.
  std::string TapName(int32_t block, std::string_view tap) const {
    return config.is_mtp(block) ? fmt::format("M{}.{}", block - config.num_layers, tap)
                                : fmt::format("L{}.{}", block, tap);
  }
  bool Wants(int32_t block, std::string_view tap) const {
    return taps != nullptr && taps->Wants(TapName(block, tap));
  }
  void Tap(int32_t block, std::string_view tap, DType dtype, std::initializer_list<int64_t> shape,
           const void* data) const {
    if (Wants(block, tap)) {
      taps->Tap(TapName(block, tap), dtype, {shape.begin(), shape.size()}, data);
    }
  }
};

// The rows x [T, cols] of a sublayer, prepared once for each way its weights take them.
class SublayerInput {
 public:
  SublayerInput(const Step& step, const Bf16* x, int64_t num_rows, int64_t cols)
      : step_(step), x_(x), num_rows_(num_rows), cols_(cols) {}

  const PreparedRows& For(const WeightView& weight) {
    const ActivationSpec spec = step_.SpecFor(weight);
    PreparedRows& rows = spec.activation == kernels::Activation::kQuantized ? quantized_ : plain_;
    if (rows.data == nullptr) {
      rows = step_.ops.Prepare(x_, num_rows_, cols_, cols_, spec, step_.workspace);
    }
    return rows;
  }

 private:
  const Step& step_;
  const Bf16* x_;
  int64_t num_rows_;
  int64_t cols_;
  PreparedRows quantized_;
  PreparedRows plain_;
};

}  // namespace dsv4::model
