// What a model needs in memory, and whether this machine has it.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/config.h"

namespace dsv4::model {

// Numbers of weights, scales and tables not counted.
struct ParameterCounts {
  int64_t total = 0;   // the main model, as published models are named by; without the MTP blocks
  int64_t active = 0;  // what one token's products read: num_activated_experts of the routed
                       // experts and not the embedding, of which it takes one row
  int64_t mtp = 0;     // the MTP blocks
};
ParameterCounts CountParameters(const ModelConfig& config);

// The weights are mapped files but for joined tensors: where the mapped ones do not fit beside the
// rest they are read from disk again and again, which is slow but works.
enum class Fit : uint8_t { kInMemory, kWeightsPageFromDisk, kDoesNotFit };
// "fits in memory", "weights page from disk", "does not fit".
std::string_view FitText(Fit fit);

struct MemoryPlan {
  int64_t weights_bytes = 0;
  int64_t joined_bytes = 0;  // of these: joined from several ranks' files, in memory, not mapped
  int64_t workspace_bytes = 0;
  int64_t state_bytes = 0;    // per sequence: windows and carried rows
  int64_t kv_page_bytes = 0;  // per 128 tokens of a sequence; 0 where no layer compresses
  int64_t context = 0;        // tokens of the one sequence that is planned for
  int64_t available_bytes = 0;

  double kv_bytes_per_token() const;
  int64_t kv_bytes(int64_t num_tokens) const;
  // For one sequence of `context` tokens, without the mapped weights.
  int64_t working_bytes() const;
  Fit fit() const;
  // The most tokens of one sequence that have room beside state, workspace and joined tensors (at
  // most `context`), the weights paging from disk if need be; 0 where not even these have.
  int64_t longest_context() const;
};

// For one sequence of the configuration's max_positions.
MemoryPlan PlanMemory(const ModelConfig& config, int64_t weights_bytes, int64_t workspace_bytes,
                      int64_t available_bytes);

}  // namespace dsv4::model
