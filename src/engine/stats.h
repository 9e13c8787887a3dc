#pragma once

#include <cstdint>

namespace dsv4::engine {

// Counters since the engine was made.
struct Stats {
  uint64_t num_steps = 0;
  uint64_t num_rows = 0;              // rows run, of prompts and of answers
  uint64_t num_sampled = 0;           // tokens given out
  uint64_t num_prompt_tokens = 0;     // of admitted requests
  uint64_t num_cached_tokens = 0;     // those of them whose state was kept
  uint64_t num_restored = 0;          // states rewound from a snapshot
  uint64_t num_preempted = 0;         // sequences paused for want of pages
  uint64_t num_sessions_evicted = 0;  // kept states dropped for want of pages or slots
};

}  // namespace dsv4::engine
