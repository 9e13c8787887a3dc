#include "engine/memory_plan.h"

#include <algorithm>

#include "model/kv_cache.h"

namespace dsv4::engine {
namespace {

constexpr int64_t kPageTokens = model::KvLayout::kPageTokens;
constexpr double kMebibyte = 1 << 20;

int64_t PagesFor(int64_t num_tokens) { return model::KvLayout::PagesFor(num_tokens); }

}  // namespace

Result<MemoryPlan> PlanMemory(const model::ModelConfig& config, const MemoryWish& wish) {
  if (wish.context > config.max_positions) {
    return DoesNotFit("a context of {} tokens is more than the model's {}", wish.context,
                      config.max_positions);
  }
  const model::KvLayout layout(config);
  const int64_t slot_bytes = layout.slot_bytes();
  const int64_t page_bytes = std::max<int64_t>(layout.page_bytes(), 1);
  MemoryPlan plan;
  plan.context = wish.context;
  if (plan.context == 0) {
    // Other slots and snapshots may take up to half before the context is cut short for them.
    const int64_t others = std::min<int64_t>(wish.num_sequences - 1 + wish.num_snapshots,
                                             wish.budget_bytes / 2 / slot_bytes);
    const int64_t pages = (wish.budget_bytes - slot_bytes * (1 + others)) / page_bytes;
    plan.context = std::min(config.max_positions, std::max<int64_t>(pages, 0) * kPageTokens);
  }
  const int64_t needed = slot_bytes + std::max<int64_t>(PagesFor(plan.context), 1) * page_bytes;
  if (plan.context == 0 || needed > wish.budget_bytes) {
    return DoesNotFit(
        "a context of {} tokens needs {:.1f} MiB for its KV cache, {:.1f} MiB are to be had",
        std::max(plan.context, kPageTokens), static_cast<double>(needed) / kMebibyte,
        static_cast<double>(wish.budget_bytes) / kMebibyte);
  }
  const int64_t least_pages = PagesFor(plan.context);
  int64_t left = (wish.budget_bytes - needed) / slot_bytes;
  plan.num_slots = static_cast<int32_t>(1 + std::min<int64_t>(wish.num_sequences - 1, left));
  left -= plan.num_slots - 1;
  plan.num_snapshots = static_cast<int32_t>(std::min<int64_t>(wish.num_snapshots, left));
  const int64_t fixed = slot_bytes * (plan.num_slots + plan.num_snapshots);
  const int64_t wanted = wish.total_tokens > 0 ? PagesFor(wish.total_tokens) + plan.num_slots - 1
                                               : plan.num_slots * least_pages;
  const int64_t found = std::min(wanted, (wish.budget_bytes - fixed) / page_bytes);
  plan.num_pages = static_cast<int32_t>(std::min<int64_t>(std::max(found, least_pages), INT32_MAX));
  plan.bytes = fixed + plan.num_pages * layout.page_bytes();
  return plan;
}

}  // namespace dsv4::engine
