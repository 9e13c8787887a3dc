// The forward pass: a batch of rows in, logits out. Written once, on the operations of ops/ops.h.
//
// Promise: the results of a row depend on its sequence's tokens alone. Not on the other rows of the
// batch, on how its prompt was cut into runs, on threads, or on whether its state was restored from
// a snapshot. Equal to the last bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "numeric/bf16.h"
#include "tensor/dtype.h"

namespace dsv4 {
class Ops;
}

namespace dsv4::model {

struct ModelWeights;

// Sees values inside the forward pass, by name: "L3.H", "M0.q", … (see TapNames).
class TapSink {
 public:
  virtual ~TapSink() = default;
  virtual bool Wants(std::string_view name) const = 0;
  // `shape` [rows of the batch, …]; the data is valid during the call only.
  virtual void Tap(std::string_view name, DType dtype, std::span<const int64_t> shape,
                   const void* data) = 0;
};

struct ForwardOutput {
  float* logits = nullptr;  // [logit_rows, vocab]
  Bf16* hidden = nullptr;   // [num_rows, hc, hidden]: the last layer's H, for MTP; may be null
  TapSink* taps = nullptr;  // may be null
};

class Model {
 public:
  struct Options {
    int32_t max_rows = 512;  // of one batch
    // For the weights; 0 for what the system has to give. Where they take more, routed experts are
    // read from disk at each use.
    int64_t memory_bytes = 0;
  };
  // Loads config.json and maps the weights of a checkpoint folder. `ops` must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const std::filesystem::path& folder, Ops& ops,
                                             const Options& options);
  ~Model();

  const ModelConfig& config() const;
  // Names of tensors in the checkpoint that nothing uses.
  const std::vector<std::string>& unused_tensors() const;
  // Whether there was memory for all weights when they were loaded.
  bool weights_stay_in_memory() const;
  // Address space reserved for the scratch of a batch: an upper bound of what the layers take at
  // once, counted with 8 bytes for every element that may be prepared for a product.
  static int64_t WorkspaceBytes(const ModelConfig& config, int32_t max_rows, int num_threads);
  // Scratch that Forward may touch, in bytes.
  int64_t workspace_bytes() const;
  // The most of it that was in use at once so far.
  int64_t workspace_used() const;
  int32_t max_rows() const;

  // Runs the main model over the batch and advances the state of its slots. Not thread-safe: one
  // caller at a time (it uses the threads of `ops` itself). Tokens must be below vocab_size and
  // batches within max_rows.
  void Forward(const Batch& batch, KvCache& cache, const ForwardOutput& output);

  // The MTP block `index` over rows whose H [num_rows, hc, hidden] is given; batch.tokens are the
  // NEXT tokens: row p takes H of p and the token at p + 1, at position p.
  void ForwardMtp(int32_t index, const Batch& batch, const Bf16* hidden, KvCache& cache,
                  const ForwardOutput& output);

  // One block alone on the given H, in place; batch.tokens route hash layers, and for an MTP block
  // are the next tokens. For tests and tracing.
  void ForwardBlock(int32_t block, const Batch& batch, Bf16* hidden, KvCache& cache, TapSink* taps);
  // hc_head, norm and head on the given H: logits of every row of `hidden` [num_rows, hc, hidden].
  void ForwardHead(const Bf16* hidden, int64_t num_rows, float* logits);

  // The H [num_rows, hc, hidden] that the first layer sees: each token's embedding, repeated.
  std::vector<Bf16> EmbedRows(std::span<const int32_t> tokens);

  // Every tap this model knows, in order of computation.
  std::vector<std::string> TapNames() const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dsv4::model
