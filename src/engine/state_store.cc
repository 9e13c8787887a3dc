#include "engine/state_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/kv_cache.h"

namespace dsv4::engine {
namespace {

int64_t PagesFor(int64_t num_tokens) { return model::KvLayout::PagesFor(num_tokens); }

int64_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

StateStore::StateStore(const ExecutorLimits& limits, Stats* stats)
    : blocks_{CountedPool(limits.num_slots), CountedPool(limits.num_pages),
              CountedPool(limits.num_snapshots)},
      stats_(stats) {}

SessionId StateStore::OpenSession() {
  sessions_.try_emplace(next_session_);
  return next_session_++;
}

void StateStore::CloseSession(SessionId session) {
  const auto found = sessions_.find(session);
  DSV4_CHECK(found != sessions_.end(), "session {} is not open", session);
  Release(std::move(found->second.state));
  sessions_.erase(found);
}

std::optional<SequenceState> StateStore::Acquire(SessionId session, std::span<const int32_t> tokens,
                                                 std::optional<BatchPlan::Copy>* restore) {
  restore->reset();
  if (session != 0) {
    Kept& kept = sessions_.at(session);
    if (kept.state.slot != SequenceState::kNoSlot) {
      SequenceState state = std::exchange(kept.state, {});
      const auto wanted = tokens.first(tokens.size() - 1);
      Rewind(&state, CommonPrefix(kept.tokens, wanted), restore);
      kept.tokens.clear();
      return state;
    }
  }
  const std::optional<int32_t> slot = TakeSlot();
  if (!slot) return std::nullopt;
  SequenceState state;
  state.slot = *slot;
  return state;
}

void StateStore::Rewind(SequenceState* state, int64_t reusable,
                        std::optional<BatchPlan::Copy>* restore) {
  if (state->num_computed <= reusable) return;
  DropSnapshotsBeyond(state, reusable);
  state->num_computed = 0;
  if (!state->snapshots.empty()) {
    const Snapshot& newest = state->snapshots.back();
    state->num_computed = newest.position;
    *restore = BatchPlan::Copy{state->slot, newest.place};
    ++stats_->num_restored;
  }
  DropPagesBeyond(state, state->num_computed);
}

void StateStore::Keep(SessionId session, SequenceState state, std::vector<int32_t> tokens) {
  Kept& kept = sessions_.at(session);
  DSV4_CHECK(kept.state.slot == SequenceState::kNoSlot, "session {} keeps a state", session);
  tokens.resize(static_cast<size_t>(state.num_computed));
  DropPagesBeyond(&state, state.num_computed);
  kept = {std::move(state), std::move(tokens), ++clock_};
}

void StateStore::Release(SequenceState state) {
  DropSnapshotsBeyond(&state, -1);
  DropPagesBeyond(&state, 0);
  if (state.slot != SequenceState::kNoSlot) blocks_.slots.Release(state.slot);
}

int64_t StateStore::Grow(SequenceState* state, int64_t num_tokens) {
  const auto wanted = static_cast<size_t>(PagesFor(num_tokens));
  while (state->pages.size() < wanted) {
    const std::optional<int32_t> page = TakePage();
    if (!page) break;
    state->pages.push_back(*page);
  }
  const int64_t room = static_cast<int64_t>(state->pages.size()) * model::KvLayout::kPageTokens;
  return std::min(num_tokens, room);
}

int64_t StateStore::num_available_pages() const {
  int64_t count = blocks_.pages.num_free();
  for (const auto& [session, kept] : sessions_) {
    count += static_cast<int64_t>(kept.state.pages.size());
  }
  return count;
}

std::optional<int32_t> StateStore::AddSnapshot(SequenceState* state, int64_t position) {
  DSV4_CHECK(state->snapshots.empty() || state->snapshots.back().position < position,
             "a snapshot at {} after one at {}", position, state->snapshots.back().position);
  std::optional<int32_t> place = blocks_.snapshots.Take();
  if (!place) {
    Kept* kept = LeastRecent([](const Kept& k) { return !k.state.snapshots.empty(); });
    std::vector<Snapshot>& victims = kept != nullptr ? kept->state.snapshots : state->snapshots;
    if (victims.empty()) return std::nullopt;
    blocks_.snapshots.Release(victims.front().place);
    victims.erase(victims.begin());
    place = blocks_.snapshots.Take();
  }
  state->snapshots.push_back({position, *place});
  return place;
}

template <class Predicate>
StateStore::Kept* StateStore::LeastRecent(Predicate holds) {
  Kept* found = nullptr;
  for (auto& [session, kept] : sessions_) {
    if (kept.state.slot == SequenceState::kNoSlot || !holds(kept)) continue;
    if (found == nullptr || kept.last_use < found->last_use) found = &kept;
  }
  return found;
}

bool StateStore::EvictOne() {
  Kept* kept = LeastRecent([](const Kept&) { return true; });
  if (kept == nullptr) return false;
  Release(std::exchange(kept->state, {}));
  kept->tokens.clear();
  ++stats_->num_sessions_evicted;
  return true;
}

std::optional<int32_t> StateStore::TakeSlot() {
  std::optional<int32_t> slot = blocks_.slots.Take();
  while (!slot && EvictOne()) slot = blocks_.slots.Take();
  return slot;
}

std::optional<int32_t> StateStore::TakePage() {
  std::optional<int32_t> page = blocks_.pages.Take();
  while (!page && EvictOne()) page = blocks_.pages.Take();
  return page;
}

void StateStore::DropSnapshotsBeyond(SequenceState* state, int64_t position) {
  while (!state->snapshots.empty() && state->snapshots.back().position > position) {
    blocks_.snapshots.Release(state->snapshots.back().place);
    state->snapshots.pop_back();
  }
}

void StateStore::DropPagesBeyond(SequenceState* state, int64_t num_tokens) {
  const auto kept = static_cast<size_t>(PagesFor(num_tokens));
  while (state->pages.size() > kept) {
    blocks_.pages.Release(state->pages.back());
    state->pages.pop_back();
  }
}

void StateStore::CheckIntegrity(std::span<const SequenceState* const> running) const {
  std::vector<const SequenceState*> states(running.begin(), running.end());
  for (const auto& [session, kept] : sessions_) {
    states.push_back(&kept.state);
    DSV4_CHECK(static_cast<int64_t>(kept.tokens.size()) == kept.state.num_computed,
               "session {} keeps {} tokens, computed {}", session, kept.tokens.size(),
               kept.state.num_computed);
  }
  std::vector<int32_t> slots, pages, snapshots;
  for (const SequenceState* state : states) {
    if (state->slot != SequenceState::kNoSlot) slots.push_back(state->slot);
    pages.insert(pages.end(), state->pages.begin(), state->pages.end());
    DSV4_CHECK(PagesFor(state->num_computed) <= static_cast<int64_t>(state->pages.size()),
               "{} pages for {} tokens", state->pages.size(), state->num_computed);
    int64_t previous = 0;
    for (const Snapshot& snapshot : state->snapshots) {
      DSV4_CHECK(snapshot.position > previous && snapshot.position <= state->num_computed,
                 "a snapshot at {} after {}, computed {}", snapshot.position, previous,
                 state->num_computed);
      previous = snapshot.position;
      snapshots.push_back(snapshot.place);
    }
  }
  blocks_.slots.CheckIntegrity(slots);
  blocks_.pages.CheckIntegrity(pages);
  blocks_.snapshots.CheckIntegrity(snapshots);
}

}  // namespace dsv4::engine
