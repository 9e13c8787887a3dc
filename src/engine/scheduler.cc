#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/kv_cache.h"

namespace dsv4::engine {

std::string_view FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kContext:
      return "context";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

namespace {

// Where a sequence that arrived at `arrival` belongs.
template <class Sequences>
auto PlaceOf(Sequences& sequences, uint64_t arrival) {
  return std::ranges::find_if(sequences,
                              [&](const auto& sequence) { return sequence->arrival > arrival; });
}

template <class Sequences>
auto Locate(Sequences& sequences, uint64_t request) {
  return std::ranges::find_if(
      sequences, [&](const auto& sequence) { return sequence->request.id == request; });
}

}  // namespace

Scheduler::Scheduler(const ExecutorLimits& limits, const SchedulerOptions& options, Stats* stats)
    : options_(options), stats_(stats), states_(limits, stats) {}

void Scheduler::Add(Request request) {
  auto sequence = std::make_unique<Sequence>();
  sequence->arrival = next_arrival_++;
  sequence->tokens = request.prompt;
  sequence->request = std::move(request);
  waiting_.push_back(std::move(sequence));
}

bool Scheduler::Cancel(uint64_t request, std::vector<TokenEvent>* events) {
  const Sequence* sequence = Find(request);
  if (sequence == nullptr) return false;
  TokenEvent event;
  event.request = request;
  event.finish = FinishReason::kCancelled;
  event.num_cached = sequence->num_cached.value_or(0);
  events->push_back(std::move(event));
  Erase(request);
  return true;
}

const Sequence* Scheduler::Find(uint64_t request) const {
  if (const auto found = Locate(running_, request); found != running_.end()) return found->get();
  if (const auto found = Locate(waiting_, request); found != waiting_.end()) return found->get();
  return nullptr;
}

bool Scheduler::IsSessionBusy(SessionId session) const {
  const auto uses = [&](const SequencePtr& sequence) {
    return sequence->request.session == session;
  };
  return session != 0 &&
         (std::ranges::any_of(running_, uses) || std::ranges::any_of(waiting_, uses));
}

void Scheduler::Plan(BatchPlan* plan) {
  plan->Clear();
  const auto budget = [&] { return options_.max_rows - static_cast<int32_t>(plan->tokens.size()); };
  // By index, since pausing shortens the list at places that have no rows yet.
  for (size_t i = 0; i < running_.size() && budget() > 0; ++i) {
    if (running_[i]->num_uncomputed() == 1) PlanRows(running_[i].get(), 1, plan);
  }
  for (size_t i = 0; i < running_.size() && budget() > 0; ++i) {
    if (!running_[i]->planned) PlanRows(running_[i].get(), budget(), plan);
  }
  if (budget() > 0) Admit(plan);
  for (const SequencePtr& sequence : running_) sequence->planned = false;
  DSV4_CHECK(!plan->runs.empty() || idle(), "{} sequences wait and none can run",
             waiting_.size() + running_.size());
}

void Scheduler::PlanRows(Sequence* sequence, int32_t max_rows, BatchPlan* plan) {
  SequenceState& state = sequence->state;
  const int64_t cut = std::min(NextCut(*sequence), state.num_computed + max_rows);
  int64_t end = states_.Grow(&state, cut);
  while (end <= state.num_computed) {
    // The sequence itself may be the one that is paused; it is gone from the list of the running
    // then.
    const uint64_t request = sequence->request.id;
    if (!PreemptFor(*sequence) || Locate(running_, request) == running_.end()) return;
    end = states_.Grow(&state, cut);
  }
  AppendRun(sequence, static_cast<int32_t>(end - state.num_computed), plan);
}

int64_t Scheduler::NextCut(const Sequence& sequence) const {
  int64_t cut = sequence.length();
  if (sequence.request.session == 0) return cut;
  const int64_t computed = sequence.state.num_computed;
  for (const int64_t point : sequence.request.branch_points) {
    if (point > computed) cut = std::min(cut, point);
  }
  const int64_t interval = options_.snapshot_interval;
  if (interval > 0) cut = std::min(cut, (computed / interval + 1) * interval);
  return cut;
}

void Scheduler::AppendRun(Sequence* sequence, int32_t num_rows, BatchPlan* plan) {
  const SequenceState& state = sequence->state;
  const auto first = sequence->tokens.begin() + static_cast<std::ptrdiff_t>(state.num_computed);
  plan->runs.push_back({state.slot, state.num_computed, num_rows,
                        static_cast<int32_t>(plan->pages.size()),
                        static_cast<int32_t>(state.pages.size())});
  plan->sequences.push_back(sequence->request.id);
  plan->tokens.insert(plan->tokens.end(), first, first + num_rows);
  plan->pages.insert(plan->pages.end(), state.pages.begin(), state.pages.end());
  const int64_t end = state.num_computed + num_rows;
  if (end == sequence->length()) {
    plan->logit_rows.push_back(static_cast<int32_t>(plan->tokens.size()) - 1);
    plan->targets.push_back({sequence->request.id, sequence->request.sampling, end});
  }
  const auto& points = sequence->request.branch_points;
  const bool at_interval = options_.snapshot_interval > 0 && end % options_.snapshot_interval == 0;
  if (sequence->request.session != 0 &&
      (at_interval || std::ranges::find(points, end) != points.end())) {
    if (const auto place = states_.AddSnapshot(&sequence->state, end)) {
      plan->saves.push_back({state.slot, *place});
    }
  }
  sequence->planned = true;
}

void Scheduler::Admit(BatchPlan* plan) {
  while (!waiting_.empty()) {
    const int32_t budget = options_.max_rows - static_cast<int32_t>(plan->tokens.size());
    if (budget <= 0 || !HasRoomFor(*waiting_.front())) return;
    Sequence* sequence = waiting_.front().get();
    std::optional<BatchPlan::Copy> restore;
    auto state = states_.Acquire(sequence->request.session, sequence->tokens, &restore);
    if (!state) return;
    if (restore) plan->restores.push_back(*restore);
    sequence->state = std::move(*state);
    sequence->phase = Sequence::Phase::kRunning;
    Reserve(sequence);
    if (!sequence->num_cached) {
      sequence->num_cached = sequence->state.num_computed;
      stats_->num_prompt_tokens += sequence->request.prompt.size();
      stats_->num_cached_tokens += static_cast<uint64_t>(*sequence->num_cached);
    }
    running_.insert(PlaceOf(running_, sequence->arrival), std::move(waiting_.front()));
    waiting_.pop_front();
    PlanRows(sequence, budget, plan);
  }
}

void Scheduler::Reserve(Sequence* sequence) const {
  const int64_t room = options_.context - sequence->prompt_length();
  const int64_t most = sequence->prompt_length() + std::min(sequence->request.max_new_tokens, room);
  sequence->tokens.reserve(static_cast<size_t>(most));
  sequence->state.pages.reserve(static_cast<size_t>(model::KvLayout::PagesFor(most)));
  if (sequence->request.session == 0) return;
  const int64_t num_intervals =
      options_.snapshot_interval > 0 ? most / options_.snapshot_interval : 0;
  sequence->state.snapshots.reserve(static_cast<size_t>(num_intervals) +
                                    sequence->request.branch_points.size());
}

bool Scheduler::HasRoomFor(const Sequence& sequence) const {
  // The kept state of its own session counts among the available pages.
  return running_.empty() ||
         model::KvLayout::PagesFor(sequence.length()) <= states_.num_available_pages();
}

bool Scheduler::PreemptFor(const Sequence& asking) {
  const auto youngest = std::ranges::find_if(running_.rbegin(), running_.rend(),
                                             [](const SequencePtr& s) { return !s->planned; });
  if (youngest == running_.rend() || (*youngest)->arrival < asking.arrival) return false;
  SequencePtr paused = std::move(*youngest);
  running_.erase(std::next(youngest).base());
  states_.Release(std::exchange(paused->state, {}));
  paused->phase = Sequence::Phase::kWaiting;
  ++stats_->num_preempted;
  waiting_.insert(PlaceOf(waiting_, paused->arrival), std::move(paused));
  return true;
}

void Scheduler::Commit(const BatchPlan& plan, std::span<const Result<Sampled>> sampled,
                       std::vector<TokenEvent>* events) {
  DSV4_CHECK(sampled.size() == plan.targets.size(), "{} tokens for {} sequences", sampled.size(),
             plan.targets.size());
  ++stats_->num_steps;
  stats_->num_rows += plan.tokens.size();
  Advance(plan);
  for (size_t i = 0; i < sampled.size(); ++i) {
    const uint64_t request = plan.targets[i].request;
    Sequence& sequence = **Locate(running_, request);
    events->push_back(sampled[i] ? Take(*sampled[i], &sequence)
                                 : Fail(sampled[i].error(), &sequence));
    if (events->back().finish) Erase(request);
  }
}

TokenEvent Scheduler::Take(const Sampled& sampled, Sequence* sequence) {
  sequence->tokens.push_back(sampled.token);
  ++stats_->num_sampled;
  return {.request = sequence->request.id,
          .token = sampled.token,
          .logprob = sampled.logprob,
          .top = sampled.top,
          .finish = FinishOf(*sequence, sampled.token),
          .num_cached = *sequence->num_cached};
}

TokenEvent Scheduler::Fail(const Error& error, Sequence* sequence) {
  states_.Release(std::exchange(sequence->state, {}));
  return {.request = sequence->request.id,
          .finish = FinishReason::kError,
          .error = error.message,
          .num_cached = *sequence->num_cached};
}

void Scheduler::Advance(const BatchPlan& plan) {
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    (*Locate(running_, plan.sequences[i]))->state.num_computed += plan.runs[i].num_rows;
  }
}

std::optional<FinishReason> Scheduler::FinishOf(const Sequence& sequence, int32_t token) const {
  const Request& request = sequence.request;
  if (token == options_.eos_token_id && !request.ignore_eos) return FinishReason::kStop;
  if (std::ranges::find(request.stop_tokens, token) != request.stop_tokens.end()) {
    return FinishReason::kStop;
  }
  if (sequence.num_sampled() >= request.max_new_tokens) return FinishReason::kLength;
  if (sequence.length() >= options_.context) return FinishReason::kContext;
  return std::nullopt;
}

void Scheduler::GiveBack(Sequence* sequence) {
  SequenceState state = std::exchange(sequence->state, {});
  if (sequence->request.session != 0 && state.num_computed > 0) {
    states_.Keep(sequence->request.session, std::move(state), std::move(sequence->tokens));
  } else {
    states_.Release(std::move(state));
  }
}

void Scheduler::Erase(uint64_t request) {
  if (const auto found = Locate(running_, request); found != running_.end()) {
    GiveBack(found->get());
    running_.erase(found);
  } else if (const auto queued = Locate(waiting_, request); queued != waiting_.end()) {
    waiting_.erase(queued);
  }
}

void Scheduler::CheckIntegrity() const {
  std::vector<const SequenceState*> states;
  for (const SequencePtr& sequence : running_) {
    DSV4_CHECK(sequence->phase == Sequence::Phase::kRunning, "request {}", sequence->request.id);
    DSV4_CHECK(sequence->state.slot != SequenceState::kNoSlot, "request {}", sequence->request.id);
    DSV4_CHECK(sequence->num_uncomputed() >= 1 && !sequence->planned, "request {}: {} of {}",
               sequence->request.id, sequence->state.num_computed, sequence->length());
    states.push_back(&sequence->state);
  }
  for (const SequencePtr& sequence : waiting_) {
    DSV4_CHECK(sequence->phase == Sequence::Phase::kWaiting, "request {}", sequence->request.id);
    DSV4_CHECK(sequence->state.slot == SequenceState::kNoSlot && sequence->state.pages.empty(),
               "request {} waits and holds a state", sequence->request.id);
  }
  states_.CheckIntegrity(states);
}

}  // namespace dsv4::engine
