// `dsv4 bench`: runs prompt and decode steps of a model and measures them.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "model/config.h"
#include "ops/ops.h"
#include "platform/process_info.h"
#include "tools/bench_bytes.h"
#include "tools/ops_perf.h"

namespace dsv4::tools {

// Sequence 0 has a synthetic context, then its prompt is computed; the other sequences' contexts
// are synthetic up to the same position. From there all are decoded together.
struct BenchOptions {
  int64_t prompt = 512;
  int64_t gen = 32;
  int64_t context = 0;
  int32_t batch = 1;
  int32_t repeats = 3;
  // Set from outside (a signal handler) to stop; null where nobody will.
  const std::atomic<bool>* stop = nullptr;

  int64_t positions() const { return context + prompt + gen; }
  bool stopped() const { return stop != nullptr && stop->load(); }
};
// A usage error where the model has not as many positions.
Status CheckPositions(const BenchOptions& options, const model::ModelConfig& config);

// One kind of work, repeated.
struct BenchPhase {
  std::vector<double> seconds;     // of each repeat
  std::vector<double> disk_bytes;  // that each repeat read from disk; empty where it is not known
  double profiled_seconds = 0;     // of one more, with a profile
  double choosing_seconds = 0;     // of those, spent on picking the tokens
  OpProfile profile;

  double median_seconds() const;
  std::optional<double> median_disk_bytes() const;
};

struct BenchReport {
  std::string kernels;
  int threads = 0;
  BenchOptions options;
  std::vector<MachineLimits> limits;  // before, between and after the repeats
  double check_error = 0;             // of logits against those of `ref`
  double first_token_s = 0;     // from the start of the process, without filling synthetic contexts
  ProcessMemory memory;         // after the first of each phase
  int64_t kv_bytes = 0;         // pages of all sequences
  int64_t state_bytes = 0;      // of all sequences
  int64_t workspace_bytes = 0;  // touched
  double kv_bytes_per_token = 0;  // a token takes these in the cache
  BenchPhase prefill;             // the prompt; empty where there is none
  BenchPhase decode;              // options.gen steps
  StepBytes decode_bytes;         // of options.gen steps
  int32_t num_layers = 0;

  MachineLimits median_limits() const;
};

// An error, kFailed, where the answers are not those of `ref` (bench_check.h) or differ between two
// repeats.
Result<BenchReport> RunBench(const std::filesystem::path& folder, Ops& ops,
                             const BenchOptions& options, Progress& progress);

}  // namespace dsv4::tools
