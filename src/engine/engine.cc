#include "engine/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "model/kv_cache.h"

namespace dsv4::engine {
namespace {

int64_t ContextOf(const ExecutorLimits& limits, const EngineOptions& options) {
  const int64_t room =
      std::min(limits.max_positions, limits.num_pages * model::KvLayout::kPageTokens);
  return options.context > 0 ? std::min(options.context, room) : room;
}

SchedulerOptions SchedulerOptionsOf(const ExecutorLimits& limits, const EngineOptions& options) {
  return {ContextOf(limits, options), limits.max_rows, limits.eos_token_id,
          options.snapshot_interval};
}

}  // namespace

Engine::Engine(std::unique_ptr<Executor> executor, const EngineOptions& options)
    : executor_(std::move(executor)),
      context_(ContextOf(executor_->limits(), options)),
      scheduler_(executor_->limits(), SchedulerOptionsOf(executor_->limits(), options), &stats_) {
  const ExecutorLimits& limits = executor_->limits();
  DSV4_CHECK(limits.num_slots >= 1 && limits.num_slots <= limits.max_rows, "{} slots, {} rows",
             limits.num_slots, limits.max_rows);
  DSV4_CHECK(context_ >= 1, "context {}", context_);
  const auto num_slots = static_cast<size_t>(limits.num_slots);
  plan_.Reserve(limits.max_rows, limits.num_slots, limits.num_pages);
  runs_.reserve(num_slots);
  sampled_.reserve(num_slots);
  logits_.reserve(num_slots * static_cast<size_t>(limits.vocab_size));
}

Status Engine::Submit(Request request) {
  DSV4_TRY(Check(request));
  scheduler_.Add(std::move(request));
  return {};
}

Status Engine::Check(const Request& request) const {
  DSV4_CHECK(scheduler_.Find(request.id) == nullptr, "request {} is there", request.id);
  if (request.prompt.empty()) return BadInput("the prompt has no tokens, expected at least one");
  const int64_t vocab_size = limits().vocab_size;
  for (size_t i = 0; i < request.prompt.size(); ++i) {
    const int32_t token = request.prompt[i];
    if (token < 0 || token >= vocab_size) {
      return BadInput("token {} of the prompt is {}, the vocabulary has {}", i, token, vocab_size);
    }
  }
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length >= context_) {
    return DoesNotFit(
        "the prompt has {} tokens, which leaves no room for an answer in a context of {}", length,
        context_);
  }
  const SamplingParams& sampling = request.sampling;
  if (!(sampling.temperature >= 0)) {
    return BadInput("temperature is {}, expected at least 0", sampling.temperature);
  }
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {
    return BadInput("top_p is {}, expected above 0 and at most 1", sampling.top_p);
  }
  if (request.max_new_tokens < 1) {
    return BadInput("max_new_tokens is {}, expected at least 1", request.max_new_tokens);
  }
  int64_t previous = 0;
  for (const int64_t point : request.branch_points) {
    DSV4_CHECK(point > previous && point < length, "branch point {} of {}", point, length);
    previous = point;
  }
  if (request.session != 0 && scheduler_.IsSessionBusy(request.session)) {
    return Failed("session {} is answering another request", request.session);
  }
  return {};
}

bool Engine::Cancel(uint64_t request) { return scheduler_.Cancel(request, &cancelled_); }

bool Engine::Step(std::vector<TokenEvent>* events) {
  events->insert(events->end(), std::make_move_iterator(cancelled_.begin()),
                 std::make_move_iterator(cancelled_.end()));
  cancelled_.clear();
  if (scheduler_.idle()) return false;
  scheduler_.Plan(&plan_);
  Run();
  const auto vocab_size = static_cast<size_t>(limits().vocab_size);
  sampled_.clear();
  for (size_t i = 0; i < plan_.targets.size(); ++i) {
    const auto row = std::span<const float>(logits_).subspan(i * vocab_size, vocab_size);
    const BatchPlan::Target& target = plan_.targets[i];
    sampled_.push_back(sampler_.Sample(row, target.sampling, target.position));
  }
  scheduler_.Commit(plan_, sampled_, events);
  return true;
}

void Engine::Run() {
  for (const BatchPlan::Copy& copy : plan_.restores) executor_->Restore(copy.snapshot, copy.slot);
  const size_t num_logits = plan_.logit_rows.size() * static_cast<size_t>(limits().vocab_size);
  if (logits_.size() < num_logits) logits_.resize(num_logits);
  executor_->Run(plan_.ToBatch(&runs_), logits_.data());
  for (const BatchPlan::Copy& copy : plan_.saves) executor_->Save(copy.slot, copy.snapshot);
}

void Engine::CloseSession(SessionId session) {
  DSV4_CHECK(!scheduler_.IsSessionBusy(session), "session {} is in use", session);
  scheduler_.states().CloseSession(session);
}

std::optional<Engine::PromptProgress> Engine::PromptProgressOf(uint64_t request) const {
  const Sequence* sequence = scheduler_.Find(request);
  if (sequence == nullptr) return std::nullopt;
  return PromptProgress{std::min(sequence->state.num_computed, sequence->prompt_length()),
                        sequence->prompt_length()};
}

}  // namespace dsv4::engine
