// The executor of one model in this process.
#pragma once

#include <memory>

#include "base/result.h"
#include "engine/executor.h"
#include "engine/memory_plan.h"
#include "model/kv_cache.h"
#include "model/model.h"

namespace dsv4::engine {

class ModelExecutor : public Executor {
 public:
  // Reserves the KV cache of the plan. Slots are cut to model->max_rows().
  static Result<std::unique_ptr<ModelExecutor>> Create(std::unique_ptr<model::Model> model,
                                                       const MemoryPlan& plan);

  const ExecutorLimits& limits() const override { return limits_; }
  void Run(const model::Batch& batch, float* logits) override;
  void Save(int32_t slot, int32_t snapshot) override;
  void Restore(int32_t snapshot, int32_t slot) override;

 private:
  ModelExecutor(std::unique_ptr<model::Model> model, model::KvCache cache,
                const ExecutorLimits& limits);

  const std::unique_ptr<model::Model> model_;
  model::KvCache cache_;  // slots of sequences, then snapshots
  const ExecutorLimits limits_;
};

}  // namespace dsv4::engine
