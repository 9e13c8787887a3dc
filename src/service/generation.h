// Text in, events out: joins the chat encoding, the tokenizer, the engine and the parsers of its
// output. One thread owns a Generator and its engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "text/chat_encoding.h"
#include "text/tokenizer.h"
#include "text/wire_dialect.h"

namespace dsv4::chat {
struct StreamEvent;
}

namespace dsv4::service {

// What the tokens are turned into.
enum class OutputForm {
  kText,      // their text without special tokens, all of it content
  kChat,      // content and tool calls
  kThinking,  // reasoning up to the end of thinking, then as kChat
};

struct GenerationRequest {
  std::vector<int32_t> prompt = {};
  OutputForm form = OutputForm::kText;
  engine::SamplingParams sampling = {};
  int64_t max_new_tokens = 300;
  // The answer ends before the first of these in its text (markers of thinking and calls included).
  std::vector<std::string> stop = {};
  bool ignore_eos = false;
  // 0, or a conversation whose state is kept and reused as far as the next prompt has a prefix in
  // common.
  engine::SessionId session = 0;
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt: not computed again
  int64_t completion_tokens = 0;
  double first_token_seconds = 0;  // from Start to the first token
  double total_seconds = 0;
  // Tokens after the first a second; 0 where there is none.
  double tokens_per_second() const;
};

struct GenerationEvent {
  enum class Kind {
    kToken,      // token; the text it completes follows, at once or later
    kReasoning,  // text
    kContent,    // text
    kCallStart,  // text: the name
    kArguments,  // text: a piece of the JSON text of the arguments
    kCallEnd,
    kFinish,  // the last event
  };
  struct Token {
    int32_t id = 0;
    float logprob = 0;
    std::vector<engine::TokenLogprob> top;
  };

  Kind kind = Kind::kToken;
  std::string text = {};  // whole characters
  Token token = {};
  engine::FinishReason finish = engine::FinishReason::kStop;  // kFinish
  std::optional<std::string> stop = std::nullopt;  // kFinish: the stop string that was found
  std::string error = {};                          // kFinish with kError: what was found
  bool malformed = false;                          // kFinish: see text/completion_stream.h
  Usage usage = {};                                // kFinish
};

using EventSink = std::function<void(const GenerationEvent&)>;

// The ids of the prompt for `messages` in the model's dialect. With kPlain, control tokens are only
// those that the encoding wrote; with kTokens also those spelt in what the messages hold, as the
// published reference does.
Result<std::vector<int32_t>> EncodeChat(const chat::WireDialect& dialect,
                                        const Tokenizer& tokenizer, const json::Value& messages,
                                        const chat::EncodeOptions& options,
                                        AddedTokenText in_content = AddedTokenText::kPlain);

// Every control token of the dialect must be one token of the tokenizer; an error names the first
// that is not.
Status CheckControlTokens(const chat::WireDialect& dialect, const Tokenizer& tokenizer);

class Generator {
 public:
  // All must outlive this. The tokenizer must not have more tokens than the model's vocabulary. A
  // model whose dialect is not known has none (null): kText is the only form then.
  Generator(engine::Engine& engine, const Tokenizer& tokenizer, const chat::WireDialect* dialect);
  ~Generator();

  // Starts answering; `sink` is called from Step only, until it got kFinish. Errors are those of
  // engine::Engine::Submit.
  Result<uint64_t> Start(GenerationRequest request, EventSink sink);
  // kFinish with kCancelled follows. The sink may call this.
  void Cancel(uint64_t id) { engine_.Cancel(id); }
  // One step of the engine; false when all requests are finished.
  bool Step();

 private:
  using Clock = std::chrono::steady_clock;
  struct Job;

  void Take(Job& job, const engine::TokenEvent& event);
  void PassText(Job& job, std::string_view text);
  void PassEvents(Job& job, std::vector<chat::StreamEvent> events);
  // `last` tells the reason and what goes with it; the rest is filled in.
  void Finish(Job& job, GenerationEvent last);

  engine::Engine& engine_;
  const Tokenizer& tokenizer_;
  const chat::WireDialect* const dialect_;
  std::map<uint64_t, std::unique_ptr<Job>> jobs_;
  uint64_t next_id_ = 1;
  std::vector<engine::TokenEvent> events_;
};

}  // namespace dsv4::service
