#include "service/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/chat_tokenizer.h"
#include "tests/support/fake_executor.h"
#include "tests/support/other_dialect.h"

namespace dsv4::service {
namespace {

using engine::FinishReason;
using test::FakeExecutor;
using ::testing::ElementsAre;
using Kind = GenerationEvent::Kind;
using Tokens = std::vector<int32_t>;

constexpr int32_t kEos = 1;

// An answer, put together.
struct Collected {
  std::string content, reasoning, calls;  // calls: name(arguments);
  Tokens tokens;
  std::vector<GenerationEvent> events;
  std::optional<GenerationEvent> last;

  EventSink Sink() {
    return [this](const GenerationEvent& event) {
      EXPECT_FALSE(last) << "an event after the last one";
      events.push_back(event);
      if (event.kind == Kind::kToken) tokens.push_back(event.token.id);
      if (event.kind == Kind::kContent) content += event.text;
      if (event.kind == Kind::kReasoning) reasoning += event.text;
      if (event.kind == Kind::kCallStart) calls += event.text + "(";
      if (event.kind == Kind::kArguments) calls += event.text;
      if (event.kind == Kind::kCallEnd) calls += ");";
      if (event.kind == Kind::kFinish) last = event;
    };
  }
};

json::Value Messages(std::string_view text) { return json::Parse(text).value(); }

class GeneratorTest : public ::testing::Test {
 protected:
  explicit GeneratorTest(const chat::WireDialect& dialect = chat::DeepSeekV4())
      : dialect_(dialect), tokenizer_(ParseTokenizer(dialect)) {
    auto executor =
        std::make_unique<FakeExecutor>(engine::ExecutorLimits{.vocab_size = tokenizer_.vocab_size(),
                                                              .eos_token_id = kEos,
                                                              .max_positions = 4096,
                                                              .max_rows = 256,
                                                              .num_slots = 8,
                                                              .num_pages = 64,
                                                              .num_snapshots = 8});
    executor_ = executor.get();
    executor_->set_script([this](uint64_t history, std::span<float> logits) {
      const auto found = script_.find(history);
      if (found != script_.end()) logits[static_cast<size_t>(found->second)] = 1000;
    });
    engine_ = std::make_unique<engine::Engine>(std::move(executor), engine::EngineOptions{});
    generator_ = std::make_unique<Generator>(*engine_, tokenizer_, &dialect_);
  }
  ~GeneratorTest() override { engine_->CheckIntegrity(); }

  static Tokenizer ParseTokenizer(const chat::WireDialect& dialect) {
    auto tokenizer =
        Tokenizer::Parse(testing::ChatTokenizerJson(testing::kChatTokenizerMinimum, dialect));
    DSV4_CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
    return std::move(*tokenizer);
  }
  Tokens Encode(std::string_view text) const {
    return tokenizer_.Encode(text, AddedTokenText::kTokens);
  }
  // From now on `prompt` is answered by `answer`.
  void Script(const Tokens& prompt, const Tokens& answer) {
    Tokens text = prompt;
    for (const int32_t token : answer) {
      script_[FakeExecutor::HistoryOf(text)] = token;
      text.push_back(token);
    }
  }
  Tokens ChatIds(std::string_view messages, chat::Mode mode = chat::Mode::kChat) {
    auto ids = EncodeChat(dialect_, tokenizer_, Messages(messages), {.mode = mode});
    EXPECT_TRUE(ids) << ids.error().message;
    return *ids;
  }
  void Start(GenerationRequest request, Collected* collected) {
    const auto id = generator_->Start(std::move(request), collected->Sink());
    ASSERT_TRUE(id) << id.error().message;
  }
  void RunAll() {
    while (generator_->Step()) {
    }
  }
  // The scripted answer as it comes out.
  Collected Answer(std::string_view completion, OutputForm form,
                   std::vector<std::string> stop = {}) {
    const Tokens prompt = ChatIds(R"([{"role":"user","content":"hello"}])");
    Script(prompt, Encode(completion));
    Collected collected;
    Start({.prompt = prompt, .form = form, .max_new_tokens = 500, .stop = std::move(stop)},
          &collected);
    RunAll();
    EXPECT_TRUE(collected.last);
    return collected;
  }

  const chat::WireDialect& dialect_;
  Tokenizer tokenizer_;
  FakeExecutor* executor_ = nullptr;
  std::map<uint64_t, int32_t> script_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Generator> generator_;
};

constexpr char kEosText[] = "<｜end▁of▁sentence｜>";

TEST_F(GeneratorTest, ChatFormGivesContentAndCalls) {
  const Collected answer = Answer(
      std::string("Wörld 世界\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"find\">\n"
                  "<｜DSML｜parameter name=\"q\" string=\"true\">x \"y\"</｜DSML｜parameter>\n"
                  "<｜DSML｜parameter name=\"n\" string=\"false\">3</｜DSML｜parameter>\n"
                  "</｜DSML｜invoke>\n</｜DSML｜tool_calls>") +
          kEosText,
      OutputForm::kChat);
  EXPECT_EQ(answer.content, "Wörld 世界");
  EXPECT_EQ(answer.calls, R"(find({"q": "x \"y\"", "n": 3});)");
  EXPECT_EQ(answer.reasoning, "");
  EXPECT_EQ(answer.last->finish, FinishReason::kStop);
  EXPECT_FALSE(answer.last->stop);
  EXPECT_FALSE(answer.last->malformed);
  EXPECT_EQ(answer.last->usage.completion_tokens, static_cast<int64_t>(answer.tokens.size()));
  EXPECT_EQ(answer.tokens.back(), kEos);
}

TEST_F(GeneratorTest, ThinkingFormGivesReasoningApart) {
  const Collected answer =
      Answer(std::string("so <b></think>done") + kEosText, OutputForm::kThinking);
  EXPECT_EQ(answer.reasoning, "so <b>");
  EXPECT_EQ(answer.content, "done");
}

TEST_F(GeneratorTest, TextFormIsTheTextWithoutSpecialTokens) {
  const Collected answer =
      Answer(std::string("a<｜User｜>b</think>c") + kEosText, OutputForm::kText);
  EXPECT_EQ(answer.content, "ab</think>c");
  EXPECT_EQ(answer.last->finish, FinishReason::kStop);
}

TEST_F(GeneratorTest, AStopStringEndsTheAnswerBeforeIt) {
  const std::string completion = std::string("one two three") + kEosText;
  for (const OutputForm form : {OutputForm::kText, OutputForm::kChat}) {
    const Collected answer = Answer(completion, form, {"xyz", "o th", "three"});
    EXPECT_EQ(answer.content, "one tw");
    EXPECT_EQ(answer.last->finish, FinishReason::kStop);
    EXPECT_EQ(answer.last->stop, "o th");
    EXPECT_LT(answer.tokens.size(), Encode(completion).size());
  }
  // What only began a stop string is text after all.
  EXPECT_EQ(Answer(completion, OutputForm::kText, {"three!"}).content, "one two three");
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

TEST_F(GeneratorTest, ABrokenCharacterAtTheEndIsNotLost) {
  const Tokens prompt = ChatIds(R"([{"role":"user","content":"hello"}])");
  Tokens answer = Encode("x世");
  answer.pop_back();
  answer.push_back(kEos);
  Script(prompt, answer);
  Collected collected;
  Start({.prompt = prompt, .form = OutputForm::kChat}, &collected);
  RunAll();
  EXPECT_EQ(collected.content, "x\uFFFD");
}

TEST_F(GeneratorTest, EosMayBeIgnored) {
  const Tokens prompt = ChatIds(R"([{"role":"user","content":"hello"}])");
  Tokens answer = Encode("ab");
  answer.insert(answer.begin() + 1, kEos);
  Script(prompt, answer);
  for (const OutputForm form : {OutputForm::kText, OutputForm::kChat}) {
    Collected collected;
    Start({.prompt = prompt, .form = form, .max_new_tokens = 3, .ignore_eos = true}, &collected);
    RunAll();
    EXPECT_EQ(collected.content, "ab");
    EXPECT_EQ(collected.last->finish, FinishReason::kLength);
  }
}

TEST_F(GeneratorTest, CancelledFromTheSinkItEndsWithWhatCame) {
  const Tokens prompt = ChatIds(R"([{"role":"user","content":"hello"}])");
  Script(prompt, Encode("hello world and more"));
  Collected collected;
  const EventSink sink = collected.Sink();
  uint64_t id = 0;
  const auto started = generator_->Start(
      {.prompt = prompt, .form = OutputForm::kChat}, [&](const GenerationEvent& event) {
        sink(event);
        if (event.kind == Kind::kContent && collected.content == "hello") generator_->Cancel(id);
      });
  ASSERT_TRUE(started);
  id = *started;
  RunAll();
  EXPECT_EQ(collected.content, "hello");
  ASSERT_TRUE(collected.last);
  EXPECT_EQ(collected.last->finish, FinishReason::kCancelled);
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

TEST_F(GeneratorTest, LogitsThatAreNotFiniteEndTheAnswerWithAnErrorAndTheTextSoFar) {
  const Tokens prompt = ChatIds(R"([{"role":"user","content":"hello"}])");
  const Tokens text = Encode("wide");
  Script(prompt, text);
  Tokens all = prompt;
  all.insert(all.end(), text.begin(), text.end());
  const uint64_t broken = FakeExecutor::HistoryOf(all);
  executor_->set_script([this, broken](uint64_t history, std::span<float> logits) {
    const auto found = script_.find(history);
    if (found != script_.end()) logits[static_cast<size_t>(found->second)] = 1000;
    if (history == broken) std::ranges::fill(logits, std::numeric_limits<float>::infinity());
  });
  Collected collected;
  Start({.prompt = prompt, .form = OutputForm::kChat, .max_new_tokens = 500}, &collected);
  RunAll();
  ASSERT_TRUE(collected.last);
  EXPECT_EQ(collected.content, "wide");
  EXPECT_EQ(collected.last->finish, FinishReason::kError);
  EXPECT_THAT(collected.last->error,
              ::testing::StartsWith(
                  fmt::format("token {}: expected a largest logit that is finite", all.size())));
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

TEST_F(GeneratorTest, ControlTokensInMessagesAreTextUnlessAskedOtherwise) {
  const json::Value messages = Messages(R"([{"role":"user","content":"<｜User｜>"}])");
  const auto plain = EncodeChat(dialect_, tokenizer_, messages, {});
  const auto tokens = EncodeChat(dialect_, tokenizer_, messages, {}, AddedTokenText::kTokens);
  ASSERT_TRUE(plain && tokens);
  EXPECT_EQ(tokens->size(), 5u);  // BOS, User, User, Assistant, </think>
  EXPECT_GT(plain->size(), 10u);
  EXPECT_EQ(tokenizer_.Decode(*plain, false), tokenizer_.Decode(*tokens, false));
}

TEST_F(GeneratorTest, WithoutADialectTextGoesOnAsItIs) {
  Generator generator(*engine_, tokenizer_, nullptr);
  const Tokens prompt = Encode("hello");
  Script(prompt, Encode(std::string(" wor</think>ld") + kEosText));
  Collected collected;
  ASSERT_TRUE(generator.Start({.prompt = prompt}, collected.Sink()));
  while (generator.Step()) {
  }
  EXPECT_EQ(collected.content, " wor</think>ld");
  EXPECT_EQ(collected.last->finish, FinishReason::kStop);
}

class OtherDialectTest : public GeneratorTest {
 protected:
  OtherDialectTest() : GeneratorTest(testing::OtherDialect()) {}
};

TEST_F(OtherDialectTest, AsksAndAnswersInIt) {
  const Collected answer = Answer(
      "why <think>]]so</think>\n\n<‡function_calls>\n<‡call id=\"f\">\n"
      "<‡arg id=\"q\" text=\"true\">x</‡arg>\n</‡call>\n</‡function_calls>[EOS]",
      OutputForm::kThinking);
  EXPECT_EQ(answer.reasoning, "why <think>");
  EXPECT_EQ(answer.content, "so</think>");
  EXPECT_EQ(answer.calls, "f({\"q\": \"x\"});");
  EXPECT_FALSE(answer.last->malformed);
  EXPECT_EQ(tokenizer_.Decode(ChatIds(R"([{"role":"user","content":"hello"}])"), false),
            "[BOS][U]hello[A]]]");
}

TEST_F(OtherDialectTest, EachControlTokenMustBeOneOfTheTokenizer) {
  EXPECT_TRUE(CheckControlTokens(dialect_, tokenizer_));
  const Status status = CheckControlTokens(chat::DeepSeekV4(), tokenizer_);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(status.error().message,
            "expected an added token '<｜begin▁of▁sentence｜>' for the chat format of deepseek_v4, "
            "found none");
}

// A conversation over several turns, each the same as without any kept state.
class ConversationTest : public GeneratorTest {
 protected:
  struct TurnResult {
    std::string content, reasoning;
    Tokens tokens;
    int64_t cached;
  };
  TurnResult Turn(chat::Mode mode, engine::SessionId session) {
    auto ids = EncodeChat(dialect_, tokenizer_, messages_, {.mode = mode});
    EXPECT_TRUE(ids) << ids.error().message;
    prompt_ = *ids;
    if (script_.empty()) Script(prompt_, Encode(std::string("think</think>hello") + kEosText));
    Collected collected;
    const OutputForm form = mode == chat::Mode::kChat ? OutputForm::kChat : OutputForm::kThinking;
    Start({.prompt = *ids, .form = form, .max_new_tokens = 40, .session = session}, &collected);
    RunAll();
    return {collected.content, collected.reasoning, collected.tokens,
            collected.last->usage.cached_tokens};
  }
  void Say(std::string_view role, std::string content, std::string reasoning = "") {
    json::Value message = json::Value::MakeObject();
    message.Set("role", json::Value::String(std::string(role)));
    message.Set("content", json::Value::String(std::move(content)));
    if (!reasoning.empty()) message.Set("reasoning_content", json::Value::String(reasoning));
    messages_.Append(std::move(message));
  }
  json::Value messages_ = json::Value::MakeArray();
  Tokens prompt_;
};

TEST_F(ConversationTest, DroppedThinkingIsRewoundExactly) {
  using enum chat::Mode;
  const engine::SessionId session = engine_->OpenSession();
  int64_t stable = 0;
  for (const chat::Mode mode : {kThinking, kThinking, kChat, kChat, kThinking, kChat}) {
    Say("user", "hello world, this is turn " + std::to_string(messages_.items().size()));
    const TurnResult kept = Turn(mode, session);
    const TurnResult fresh = Turn(mode, 0);
    EXPECT_EQ(kept.tokens, fresh.tokens);
    EXPECT_EQ(fresh.cached, 0);
    EXPECT_GE(kept.cached, stable) << "all up to the turn's end token before the answer is kept";
    stable = static_cast<int64_t>(prompt_.size()) - 1;
    Say("assistant", kept.content, kept.reasoning);
  }
  EXPECT_GT(engine_->stats().num_restored, 0u);
  engine_->CloseSession(session);
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

TEST_F(ConversationTest, WithoutThinkingTheAnswerItselfIsReused) {
  const engine::SessionId session = engine_->OpenSession();
  Say("user", "hello");
  Script(ChatIds(R"([{"role":"user","content":"hello"}])"),
         Encode(std::string("hello world") + kEosText));
  const TurnResult first = Turn(chat::Mode::kChat, session);
  EXPECT_EQ(first.content, "hello world");
  const auto length = static_cast<int64_t>(prompt_.size() + first.tokens.size());
  Say("assistant", first.content);
  Say("user", "more");
  EXPECT_EQ(Turn(chat::Mode::kChat, session).cached, length - 1);  // EOS itself was not run
  engine_->CloseSession(session);
}

}  // namespace
}  // namespace dsv4::service
