#include "service/generation.h"

#include <utility>

#include "base/check.h"
#include "text/completion_stream.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"

namespace dsv4::service {
namespace {

double SecondsBetween(std::chrono::steady_clock::time_point from,
                      std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

GenerationEvent::Kind KindOf(chat::StreamEvent::Kind kind) {
  switch (kind) {
    case chat::StreamEvent::Kind::kReasoning:
      return GenerationEvent::Kind::kReasoning;
    case chat::StreamEvent::Kind::kContent:
      return GenerationEvent::Kind::kContent;
    case chat::StreamEvent::Kind::kCallStart:
      return GenerationEvent::Kind::kCallStart;
    case chat::StreamEvent::Kind::kArguments:
      return GenerationEvent::Kind::kArguments;
    case chat::StreamEvent::Kind::kCallEnd:
      return GenerationEvent::Kind::kCallEnd;
    case chat::StreamEvent::Kind::kFinish:
      return GenerationEvent::Kind::kFinish;
  }
  return GenerationEvent::Kind::kFinish;
}

}  // namespace

Result<std::vector<int32_t>> EncodeChat(const chat::WireDialect& dialect,
                                        const Tokenizer& tokenizer, const json::Value& messages,
                                        const chat::EncodeOptions& options,
                                        AddedTokenText in_content) {
  DSV4_ASSIGN(const chat::EncodedPrompt prompt, chat::Encode(dialect, messages, nullptr, options));
  if (in_content == AddedTokenText::kTokens) return tokenizer.Encode(prompt.text, in_content);
  return tokenizer.EncodeWithSpans(prompt.text, prompt.control_spans);
}

Status CheckControlTokens(const chat::WireDialect& dialect, const Tokenizer& tokenizer) {
  for (const std::string_view token : dialect.control_tokens) {
    if (!tokenizer.FindAdded(token)) {
      return BadInput("expected an added token '{}' for the chat format of {}, found none", token,
                      dialect.model_type);
    }
  }
  return {};
}

double Usage::tokens_per_second() const {
  const double seconds = total_seconds - first_token_seconds;
  if (completion_tokens < 2 || seconds <= 0) return 0;
  return static_cast<double>(completion_tokens - 1) / seconds;
}

struct Generator::Job {
  Job(const chat::WireDialect* dialect, const Tokenizer& tokenizer,
      const GenerationRequest& request, EventSink sink_in)
      : sink(std::move(sink_in)),
        detokenizer(tokenizer, request.form == OutputForm::kText),
        stops(request.stop),
        stop_strings(request.stop),
        start(Clock::now()) {
    if (request.form == OutputForm::kText) return;
    DSV4_CHECK(dialect != nullptr, "a chat with a model whose dialect is not known");
    parser.emplace(*dialect,
                   request.form == OutputForm::kChat ? chat::Mode::kChat : chat::Mode::kThinking);
  }

  EventSink sink;
  Detokenizer detokenizer;
  StopMatcher stops;
  std::vector<std::string> stop_strings;
  std::optional<chat::CompletionStream> parser;
  std::optional<int32_t> skipped_token;  // gives no text: an EOS that is ignored
  bool malformed = false;
  Usage usage;
  Clock::time_point start;
  uint64_t id = 0;
};

Generator::Generator(engine::Engine& engine, const Tokenizer& tokenizer,
                     const chat::WireDialect* dialect)
    : engine_(engine), tokenizer_(tokenizer), dialect_(dialect) {}

Generator::~Generator() = default;

Result<uint64_t> Generator::Start(GenerationRequest request, EventSink sink) {
  auto job = std::make_unique<Job>(dialect_, tokenizer_, request, std::move(sink));
  job->id = next_id_;
  job->usage.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  if (request.ignore_eos) job->skipped_token = engine_.limits().eos_token_id;
  engine::Request to_engine;
  to_engine.id = next_id_;
  to_engine.sampling = request.sampling;
  to_engine.max_new_tokens = request.max_new_tokens;
  to_engine.ignore_eos = request.ignore_eos;
  to_engine.session = request.session;
  // A chat prompt ends with the token that opens or closes thinking; when it has become an earlier
  // turn, the other one may stand there. What comes before stays.
  if (request.session != 0 && request.prompt.size() > 1) {
    to_engine.branch_points = {static_cast<int64_t>(request.prompt.size()) - 1};
  }
  to_engine.prompt = std::move(request.prompt);
  DSV4_TRY(engine_.Submit(std::move(to_engine)));
  jobs_.emplace(next_id_, std::move(job));
  return next_id_++;
}

bool Generator::Step() {
  events_.clear();
  const bool more = engine_.Step(&events_);
  for (const engine::TokenEvent& event : events_) {
    // A request whose stop string was found is gone already.
    const auto job = jobs_.find(event.request);
    if (job != jobs_.end()) Take(*job->second, event);
  }
  return more;
}

void Generator::Take(Job& job, const engine::TokenEvent& event) {
  job.usage.cached_tokens = event.num_cached;
  std::string bytes;
  if (event.token != engine::TokenEvent::kNoToken) {
    if (job.usage.completion_tokens++ == 0) {
      job.usage.first_token_seconds = SecondsBetween(job.start, Clock::now());
    }
    job.sink(
        {.kind = GenerationEvent::Kind::kToken, .token = {event.token, event.logprob, event.top}});
    if (event.token != job.skipped_token) bytes = job.detokenizer.Push(event.token);
  }
  if (event.finish) bytes += job.detokenizer.Flush();
  const StopMatcher::Output passed = job.stops.Push(bytes);
  PassText(job, passed.text);
  if (passed.stop) {
    if (!event.finish) engine_.Cancel(job.id);
    Finish(job, {.finish = engine::FinishReason::kStop, .stop = job.stop_strings[*passed.stop]});
  } else if (event.finish) {
    PassText(job, job.stops.Flush());
    Finish(job, {.finish = *event.finish, .error = event.error});
  } else if (job.parser && job.parser->finished()) {  // EOS spelt by other tokens
    engine_.Cancel(job.id);
    Finish(job, {.finish = engine::FinishReason::kStop});
  }
}

void Generator::PassText(Job& job, std::string_view text) {
  if (text.empty()) return;
  if (job.parser) {
    PassEvents(job, job.parser->Feed(text));
  } else {
    job.sink({.kind = GenerationEvent::Kind::kContent, .text = std::string(text)});
  }
}

void Generator::PassEvents(Job& job, std::vector<chat::StreamEvent> events) {
  for (chat::StreamEvent& event : events) {
    if (event.kind == chat::StreamEvent::Kind::kFinish) {
      job.malformed = event.malformed;
    } else {
      job.sink({.kind = KindOf(event.kind), .text = std::move(event.text)});
    }
  }
}

void Generator::Finish(Job& job, GenerationEvent last) {
  if (job.parser) PassEvents(job, job.parser->Finish());
  job.usage.total_seconds = SecondsBetween(job.start, Clock::now());
  last.kind = GenerationEvent::Kind::kFinish;
  last.malformed = job.malformed;
  last.usage = job.usage;
  job.sink(last);
  jobs_.erase(job.id);
}

}  // namespace dsv4::service
