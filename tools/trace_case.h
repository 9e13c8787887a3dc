// The cases of `dsv4 trace`: what to run and which inner values to keep. One JSON object a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/model.h"
#include "tensor/dtype.h"

namespace dsv4::tools {

struct LogitSelection {
  enum class Kind { kNone, kAll, kLast, kPositions };
  Kind kind = Kind::kAll;
  std::vector<int64_t> positions;  // ascending, for kPositions
};

struct TraceCase {
  enum class Kind { kSequences, kBlock, kHead };
  Kind kind = Kind::kSequences;
  std::string id;
  // One sequence, or several run side by side (`batch`).
  std::vector<std::vector<int32_t>> sequences;
  bool batch = false;
  std::optional<int64_t> prefill;  // tokens in the first forward; all where absent
  std::vector<int64_t> chunks;     // instead: the first forwards' lengths
  LogitSelection logits;
  bool mtp = false;
  std::vector<std::string> taps;
  // kBlock: the block's index (MTP blocks follow the main layers).
  int32_t block = 0;
  std::filesystem::path h_file;  // kBlock, kHead: the given H; empty for the repeated embedding
  std::string h_tensor;

  int64_t most_rows() const;  // of one forward, if nothing is cut
};

// A tensor of the answer.
struct NamedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

// `model` tells vocabulary, blocks and taps; errors name the field, what was expected and found.
Result<TraceCase> ParseTraceCase(const json::Value& line, const model::Model& model);

// Runs the case from empty state. Tensors are named "ID/logits", "ID/mtp_logits", "ID/L3.H",
// "ID/0/logits" (batch) and so on.
Result<std::vector<NamedTensor>> RunTraceCase(model::Model& model, const TraceCase& trace);

}  // namespace dsv4::tools
