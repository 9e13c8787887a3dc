// Any bytes as config.json: refused with a message, or a configuration whose sizes do not overflow.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "model/config.h"
#include "model/kv_cache.h"
#include "model/memory_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsv4;
  const Result<json::Value> json =
      json::Parse({reinterpret_cast<const char*>(data), size}, {.max_depth = 64});
  if (!json) return 0;
  const Result<model::ModelConfig> config = model::ParseConfig(*json);
  if (!config) {
    DSV4_CHECK(!config.error().message.empty());
    return 0;
  }
  DSV4_CHECK(config->compress_ratios.size() == static_cast<size_t>(config->num_blocks()));
  const model::KvLayout layout(*config);
  DSV4_CHECK(layout.slot_bytes() > 0 && layout.page_bytes() >= 0);
  const model::ParameterCounts counts = model::CountParameters(*config);
  DSV4_CHECK(counts.total > 0 && counts.active > 0 && counts.mtp >= 0);
  const model::MemoryPlan plan = model::PlanMemory(*config, 0, 0, int64_t{1} << 40);
  DSV4_CHECK(plan.working_bytes() > 0 && plan.longest_context() >= 0);
  return 0;
}
