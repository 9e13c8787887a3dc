#include "engine/model_executor.h"

#include <algorithm>
#include <utility>

namespace dsv4::engine {

Result<std::unique_ptr<ModelExecutor>> ModelExecutor::Create(std::unique_ptr<model::Model> model,
                                                             const MemoryPlan& plan) {
  const model::ModelConfig& config = model->config();
  const ExecutorLimits limits{
      .vocab_size = config.vocab_size,
      .eos_token_id = config.eos_token_id,
      .max_positions = plan.context,
      .max_rows = model->max_rows(),
      .num_slots = std::min(plan.num_slots, model->max_rows()),
      .num_pages = plan.num_pages,
      .num_snapshots = plan.num_snapshots,
  };
  DSV4_ASSIGN(
      model::KvCache cache,
      model::KvCache::Create(config, limits.num_slots + limits.num_snapshots, limits.num_pages));
  return std::unique_ptr<ModelExecutor>(
      new ModelExecutor(std::move(model), std::move(cache), limits));
}

ModelExecutor::ModelExecutor(std::unique_ptr<model::Model> model, model::KvCache cache,
                             const ExecutorLimits& limits)
    : model_(std::move(model)), cache_(std::move(cache)), limits_(limits) {}

void ModelExecutor::Run(const model::Batch& batch, float* logits) {
  model::ForwardOutput output;
  output.logits = logits;
  model_->Forward(batch, cache_, output);
}

void ModelExecutor::Save(int32_t slot, int32_t snapshot) {
  std::ranges::copy(cache_.slot(slot), cache_.slot(limits_.num_slots + snapshot).begin());
}

void ModelExecutor::Restore(int32_t snapshot, int32_t slot) {
  std::ranges::copy(cache_.slot(limits_.num_slots + snapshot), cache_.slot(slot).begin());
}

}  // namespace dsv4::engine
