// Tokens in, tokens out. One thread owns an engine and calls it; nothing here blocks but Step.
//
// What a request gets depends on its prompt, sampling parameters and limits alone: never on the
// other requests, on the size of chunks, on a kept state or on having been paused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/batch_plan.h"
#include "engine/executor.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/stats.h"

namespace dsv4::engine {

struct EngineOptions {
  // Tokens of one sequence, prompt and answer; 0: as many as model and pages allow. More is cut to
  // that.
  int64_t context = 0;
  int64_t snapshot_interval = 512;  // SchedulerOptions
};

class Engine {
 public:
  Engine(std::unique_ptr<Executor> executor, const EngineOptions& options);

  const ExecutorLimits& limits() const { return executor_->limits(); }
  int64_t context() const { return context_; }

  // A request that can never run is refused here; every other ends with an event that has `finish`.
  // kDoesNotFit: no room for prompt and one more token in the context. kFailed: its session is in
  // use.
  Status Submit(Request request);
  // False where the request is not there (any more). Its last event comes with the next Step.
  bool Cancel(uint64_t request);
  // Runs one batch, if there is work; appends what came of it. False when nothing is left to do.
  bool Step(std::vector<TokenEvent>* events);

  SessionId OpenSession() { return scheduler_.states().OpenSession(); }
  // The session must not be in use.
  void CloseSession(SessionId session);

  // How far the prompt of an unfinished request is computed.
  struct PromptProgress {
    int64_t num_computed = 0;
    int64_t num_tokens = 0;
  };
  std::optional<PromptProgress> PromptProgressOf(uint64_t request) const;

  const Stats& stats() const { return stats_; }
  int32_t num_pages_used() { return scheduler_.states().num_pages_used(); }
  // Aborts where slots, pages or sequences contradict each other. Between steps.
  void CheckIntegrity() const { scheduler_.CheckIntegrity(); }

 private:
  Status Check(const Request& request) const;
  void Run();

  const std::unique_ptr<Executor> executor_;
  const int64_t context_;
  Stats stats_;
  Scheduler scheduler_;
  Sampler sampler_;
  std::vector<TokenEvent> cancelled_;  // told with the next Step
  // Kept from step to step so that a step need not allocate.
  BatchPlan plan_;
  std::vector<model::SequenceRun> runs_;
  std::vector<float> logits_;
  std::vector<Result<Sampled>> sampled_;
};

}  // namespace dsv4::engine
