// What goes into the engine and what comes out: token ids, no text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsv4::engine {

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy, the largest logit, among equals the smallest id
  float top_p = 1.0f;        // in (0, 1]; the nucleus that is sampled from (sampler.h)
  uint64_t seed = 0;         // with the same seed and prompt the same tokens, alone or in company
  // Log-probabilities of the sampled token and of this many most likely ones; none at all if
  // absent.
  std::optional<int32_t> num_top_logprobs = std::nullopt;
};

// A conversation whose state is kept between requests; 0: none.
using SessionId = uint64_t;

struct Request {
  uint64_t id = 0;              // the caller's; unique among unfinished requests
  std::vector<int32_t> prompt;  // at least one token
  SamplingParams sampling;
  int64_t max_new_tokens = 1;        // at least 1
  std::vector<int32_t> stop_tokens;  // end the answer besides the model's EOS
  bool ignore_eos = false;           // EOS is a token like any other (for measurements)
  SessionId session = 0;
  // With a session: lengths of prefixes of the prompt at which a later prompt may branch off; the
  // state is kept there. Ascending, each below the length of the prompt.
  std::vector<int64_t> branch_points;
};

enum class FinishReason {
  kStop,       // EOS or a stop token, which is the event's token
  kLength,     // max_new_tokens
  kContext,    // the context is full
  kCancelled,  // no token comes with it
  kError,      // the model gave no number to sample from; no token comes with it
};

// "stop", "length", "context", "cancelled", "error".
std::string_view FinishReasonName(FinishReason reason);

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // of softmax(logits): temperature and top_p do not count
  bool operator==(const TokenLogprob&) const = default;
};

struct TokenEvent {
  static constexpr int32_t kNoToken = -1;

  uint64_t request = 0;
  int32_t token = kNoToken;
  float logprob = 0;                   // with num_top_logprobs only
  std::vector<TokenLogprob> top = {};  // most likely first; with num_top_logprobs only
  // Set on the last event of a request, and only there.
  std::optional<FinishReason> finish = std::nullopt;
  std::string error = {};  // with kError only: what was found, and where
  int64_t num_cached = 0;  // prompt tokens whose state was kept from earlier requests
};

}  // namespace dsv4::engine
