// Gives sequences their states and keeps those of conversations between requests.
//
// Rewinding: a kept state serves a prompt as far as their common prefix reaches. Where the state is
// longer, the newest snapshot at or before the end of that prefix is restored and the rest is
// computed again; entries of the page beyond the cut are then rewritten before they are read, since
// what a row reads ends at its position. So an answer after a rewind has the bits of a fresh
// computation.
//
// Kept states are a cache: the one used longest ago is dropped when slots or pages are wanted. When
// places for snapshots are, that one's shortest goes, then the shortest of the asking state itself.
// That costs time, never a result.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/batch_plan.h"
#include "engine/block_manager.h"
#include "engine/executor.h"
#include "engine/sequence.h"
#include "engine/stats.h"

namespace dsv4::engine {

class StateStore {
 public:
  StateStore(const ExecutorLimits& limits, Stats* stats);

  SessionId OpenSession();
  // Drops its kept state. The session must not be in use by a sequence.
  void CloseSession(SessionId session);
  bool IsOpen(SessionId session) const { return sessions_.contains(session); }

  // A state for `tokens`, whose last token stays to be computed: that of the session, rewound,
  // where it fits, else an empty one. *restore is set where a snapshot must be copied back before
  // the next run. nullopt where no slot can be had.
  std::optional<SequenceState> Acquire(SessionId session, std::span<const int32_t> tokens,
                                       std::optional<BatchPlan::Copy>* restore);
  // Keeps the state, which holds the first num_computed of `tokens`, for the session's next prompt.
  void Keep(SessionId session, SequenceState state, std::vector<int32_t> tokens);
  void Release(SequenceState state);

  // Gives the state pages for up to `num_tokens` tokens; returns for how many it has them now.
  int64_t Grow(SequenceState* state, int64_t num_tokens);
  // Pages that Grow can find.
  int64_t num_available_pages() const;
  // A place for a copy of the state's slot as it will be at num_computed == position, beyond its
  // other snapshots; nullopt where there is none.
  std::optional<int32_t> AddSnapshot(SequenceState* state, int64_t position);

  int32_t num_pages_used() const { return blocks_.pages.num_used(); }
  // `running`: the states that were acquired and not yet given back.
  void CheckIntegrity(std::span<const SequenceState* const> running) const;

 private:
  struct Kept {
    SequenceState state;          // kNoSlot: nothing is kept
    std::vector<int32_t> tokens;  // [num_computed]
    uint64_t last_use = 0;
  };

  // The session whose kept state was used longest ago and for which `holds` is true, or null.
  template <class Predicate>
  Kept* LeastRecent(Predicate holds);
  bool EvictOne();  // false where nothing is kept
  std::optional<int32_t> TakeSlot();
  std::optional<int32_t> TakePage();
  // Cuts the state so that it holds at most `reusable` tokens.
  void Rewind(SequenceState* state, int64_t reusable, std::optional<BatchPlan::Copy>* restore);
  void DropSnapshotsBeyond(SequenceState* state, int64_t position);
  void DropPagesBeyond(SequenceState* state, int64_t num_tokens);

  BlockManager blocks_;
  std::map<SessionId, Kept> sessions_;
  SessionId next_session_ = 1;
  uint64_t clock_ = 0;
  Stats* const stats_;
};

}  // namespace dsv4::engine
