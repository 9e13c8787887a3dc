// Decides what runs next and takes in what came out: Plan, then the batch is run and sampled, then
// Commit. All decisions are made here, from plain numbers.
//
// A plan: one row for each sequence that is decoding (the ones that came first first), then chunks
// of prompts in order of arrival while the budget of rows lasts, then waiting requests are
// admitted. A request is admitted when its whole prompt finds pages. Where pages run out, kept
// states of conversations go first; then the youngest sequence is paused: its state is dropped and
// computed again later, with the same result.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/batch_plan.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "engine/state_store.h"

namespace dsv4::engine {

struct SchedulerOptions {
  int64_t context = 0;  // tokens of one sequence, prompt and answer together
  int32_t max_rows = 0;
  int32_t eos_token_id = 0;
  // In sessions the state is kept at multiples of this too; 0: only at branch points.
  int64_t snapshot_interval = 0;
};

class Scheduler {
 public:
  Scheduler(const ExecutorLimits& limits, const SchedulerOptions& options, Stats* stats);

  StateStore& states() { return states_; }
  // The request must have been checked (Engine::Submit).
  void Add(Request request);
  // Ends the request; an event tells so. False where there is no such request.
  bool Cancel(uint64_t request, std::vector<TokenEvent>* events);
  const Sequence* Find(uint64_t request) const;
  bool IsSessionBusy(SessionId session) const;
  bool idle() const { return waiting_.empty() && running_.empty(); }

  // *plan is made anew; empty only when idle.
  void Plan(BatchPlan* plan);
  // `sampled` [plan.targets]. Appends an event for each; where there is an error instead of a
  // token, its request ends with kError, and the others go on.
  void Commit(const BatchPlan& plan, std::span<const Result<Sampled>> sampled,
              std::vector<TokenEvent>* events);

  void CheckIntegrity() const;

 private:
  using SequencePtr = std::unique_ptr<Sequence>;

  // Plans up to `max_rows` rows of a running sequence; fewer where a snapshot is due or pages lack.
  void PlanRows(Sequence* sequence, int32_t max_rows, BatchPlan* plan);
  int64_t NextCut(const Sequence& sequence) const;
  void AppendRun(Sequence* sequence, int32_t num_rows, BatchPlan* plan);
  void Admit(BatchPlan* plan);
  // Room for all that the sequence may come to hold, so that later steps need not allocate.
  void Reserve(Sequence* sequence) const;
  bool HasRoomFor(const Sequence& sequence) const;
  // Pauses the youngest sequence that has no rows in this plan, if it is not older than `asking`.
  bool PreemptFor(const Sequence& asking);
  void Advance(const BatchPlan& plan);
  TokenEvent Take(const Sampled& sampled, Sequence* sequence);
  // Nothing of its state is kept: the next prompt of its session is computed anew.
  TokenEvent Fail(const Error& error, Sequence* sequence);
  std::optional<FinishReason> FinishOf(const Sequence& sequence, int32_t token) const;
  void GiveBack(Sequence* sequence);
  void Erase(uint64_t request);

  const SchedulerOptions options_;
  Stats* const stats_;
  StateStore states_;
  // Both in order of arrival.
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;
  uint64_t next_arrival_ = 0;
};

}  // namespace dsv4::engine
