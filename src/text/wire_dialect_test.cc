// What a dialect says is what is written and read, and nothing of another dialect is.
#include "text/wire_dialect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/other_dialect.h"
#include "text/chat_encoding.h"
#include "text/completion_parser.h"
#include "text/completion_stream.h"

namespace dsv4::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OtherDialect;

EncodedPrompt OtherPrompt(std::string_view messages, const EncodeOptions& options = {}) {
  auto prompt = Encode(OtherDialect(), json::Parse(messages).value(), nullptr, options);
  EXPECT_TRUE(prompt) << prompt.error().message;
  return prompt.value_or(EncodedPrompt());
}

// A conversation in which every text of a dialect comes up, tasks and efforts apart.
constexpr char kConversation[] = R"([
  {"role":"system","content":"sys","tools":[{"function":{"name":"f"}},{"function":{"name":"g"}}],
   "response_format":{"type":"t"}},
  {"role":"latest_reminder","content":"note"},
  {"role":"developer","content":"dev"},
  {"role":"user","content":"hi"},
  {"role":"assistant","reasoning_content":"why","content":"so","tool_calls":[
    {"id":"1","function":{"name":"f","arguments":"{\"a\": \"x\\ny\", \"b\": [1, 2]}"}},
    {"id":"2","function":{"name":"g","arguments":"{}"}}]},
  {"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"two"},{"type":"image"}]},
  {"role":"tool","tool_call_id":"1","content":"one"}])";
constexpr EncodeOptions kThinking = {.mode = Mode::kThinking};

TEST(WireDialect, EveryTextOfAPromptIsTheDialectsOwn) {
  const EncodedPrompt prompt = OtherPrompt(kConversation, kThinking);
  EXPECT_EQ(prompt.text,
            "[BOS]sys\n\nSay [[why]] first, then <‡function_calls>:\n{\"name\": \"f\"}\n"
            "{\"name\": \"g\"}\nThat is all.\n\nForm: {\"type\": \"t\"}"
            "[N]note[U]dev[U]hi[A][[why]]so\n\n<‡function_calls>\n"
            "<‡call id=\"f\">\n<‡arg id=\"a\" text=\"true\">x\ny</‡arg>\n"
            "<‡arg id=\"b\" text=\"false\">[1, 2]</‡arg>\n</‡call>\n"
            "<‡call id=\"g\">\n\n</‡call>\n</‡function_calls>[EOS]"
            "[U]{r}one{/r}\n\n{r}two\n\n(no image){/r}[A][[");
  for (const std::string_view token : DeepSeekV4().control_tokens) {
    EXPECT_THAT(prompt.text, Not(HasSubstr(std::string(token))));
  }
  for (const char* text : {"tool", "invoke", "param", "name=", "string=", "Unsupported", "Tools",
                           "Response", "｜", "<｜", "MUST"}) {
    EXPECT_THAT(prompt.text, Not(HasSubstr(text)));
  }
}

TEST(WireDialect, ItsControlTokensAloneHaveSpans) {
  const auto tokens_of = [](std::string_view messages) {
    const EncodedPrompt prompt = OtherPrompt(messages, kThinking);
    std::vector<std::string> tokens;
    for (const TextSpan& span : prompt.control_spans) {
      tokens.push_back(prompt.text.substr(span.begin, span.end - span.begin));
    }
    return tokens;
  };
  EXPECT_THAT(tokens_of(R"([{"role":"user","content":"[A]<think><｜User｜>"}])"),
              ElementsAre("[BOS]", "[U]", "[A]", "[["));
  EXPECT_THAT(
      tokens_of(kConversation),
      ElementsAre("[BOS]", "[[", "]]", "‡", "[N]", "[U]", "[U]", "[A]", "[[", "]]", "‡", "‡", "‡",
                  "‡", "‡", "‡", "‡", "‡", "‡", "‡", "[EOS]", "[U]", "[A]", "[["));
}

TEST(WireDialect, EffortsAndTasksAreItsOwn) {
  const auto prompt_of = [](const char* task, const EncodeOptions& options) {
    const std::string message = fmt::format(R"([{{"role":"user","content":"a"{}}}])",
                                            *task == 0 ? "" : fmt::format(R"(,"task":"{}")", task));
    const auto prompt = Encode(OtherDialect(), json::Parse(message).value(), nullptr, options);
    return prompt ? prompt->text : prompt.error().message;
  };
  const auto think = [](Effort effort) {
    return EncodeOptions{.mode = Mode::kThinking, .effort = effort};
  };
  EXPECT_EQ(prompt_of("", think(Effort::kNone)), "[BOS][U]a[A][[");
  EXPECT_EQ(prompt_of("", think(Effort::kHigh)), "[BOS]Think well.\n[U]a[A][[");
  EXPECT_EQ(prompt_of("", think(Effort::kMax)), "[BOS]Think best.\n[U]a[A][[");
  EXPECT_EQ(prompt_of("", {.effort = Effort::kMax}), "[BOS][U]a[A]]]");
  EXPECT_EQ(prompt_of("sum", {}), "[BOS][U]a[S]");
  EXPECT_EQ(prompt_of("go", {}), "[BOS][U]a[A]]][G]");
  EXPECT_EQ(prompt_of("title", {}), "messages[0].task: expected sum or go, found \"title\"");
}

// What is fed in pieces that end at `cuts` comes to.
ParsedMessage Stream(std::string_view text, const std::vector<size_t>& cuts, Mode mode) {
  CompletionStream stream(OtherDialect(), mode);
  MessageBuilder builder;
  const auto add = [&](const std::vector<StreamEvent>& events) {
    for (const StreamEvent& event : events) {
      builder.Add(event);
      if (event.kind != StreamEvent::Kind::kFinish) continue;
      EXPECT_TRUE(event.stopped);
      EXPECT_FALSE(event.malformed);
    }
  };
  size_t begin = 0;
  for (const size_t cut : cuts) {
    add(stream.Feed(text.substr(begin, cut - begin)));
    begin = cut;
  }
  add(stream.Feed(text.substr(begin)));
  add(stream.Finish());
  return builder.message();
}

// The answer as it follows its prompt, read whole and in any two or one-byte pieces.
void ExpectRoundTrip(const ParsedMessage& message, Mode mode) {
  json::Value answer = message.ToJson();
  json::Value user = json::Parse(R"({"role":"user","content":"hi"})").value();
  const EncodeOptions options = {.mode = mode};
  const json::Value asked = json::Value::MakeArray({user});
  const json::Value answered = json::Value::MakeArray({user, answer});
  const std::string prompt = Encode(OtherDialect(), asked, nullptr, options).value().text;
  const std::string whole = Encode(OtherDialect(), answered, nullptr, options).value().text;
  ASSERT_TRUE(whole.starts_with(prompt));
  const std::string completion = whole.substr(prompt.size());
  const auto strict = ParseCompletion(OtherDialect(), completion, mode);
  ASSERT_TRUE(strict) << strict.error().message << '\n' << completion;
  EXPECT_EQ(*strict, message) << completion;
  std::vector<size_t> bytes;
  for (size_t cut = 0; cut <= completion.size(); ++cut) {
    EXPECT_EQ(Stream(completion, {cut}, mode), message) << completion << cut;
    bytes.push_back(cut);
  }
  EXPECT_EQ(Stream(completion, bytes, mode), message) << completion;
}

TEST(WireDialect, WhatItWritesItReadsInAnyPieces) {
  const std::vector<ToolCall> calls = {
      {"find", R"({"q": "a \"b\"\nc </‡ar", "n": 3, "l": ["x", {"y": null}]})"}, {"now", "{}"}};
  ExpectRoundTrip({"", "", {}}, Mode::kChat);
  ExpectRoundTrip({"Hello, wörld.", "", {}}, Mode::kChat);
  ExpectRoundTrip({"Hello", "Hm [ ] [", {}}, Mode::kThinking);
  ExpectRoundTrip({"One\n\n<function", "two\n\n", {}}, Mode::kThinking);
  ExpectRoundTrip({"Calling", "", calls}, Mode::kChat);
  ExpectRoundTrip({"", "So [call", calls}, Mode::kThinking);
}

TEST(WireDialect, TextsOfAnotherDialectArePlain) {
  const WireDialect& v4 = DeepSeekV4();
  std::string foreign = v4.block_head + v4.invoke_head + "f\">\n" + v4.invoke_end + v4.calls_tail;
  for (const std::string_view token : v4.control_tokens) foreign += token;
  ExpectRoundTrip({foreign, foreign, {{"f", "{\"k\": " + json::Quote(foreign) + "}"}}},
                  Mode::kThinking);
}

TEST(WireDialect, ErrorsNameItsOwnTexts) {
  const auto error_of = [](std::string_view completion, Mode mode) {
    const auto message = ParseCompletion(OtherDialect(), completion, mode);
    return message ? "no error" : message.error().message;
  };
  EXPECT_EQ(error_of("a", Mode::kChat), "byte 1: expected [EOS] after the content, found the end");
  EXPECT_EQ(error_of("a", Mode::kThinking),
            "byte 1: expected ]] before the content, found the end");
  EXPECT_EQ(error_of("a‡[EOS]", Mode::kChat),
            "byte 1: expected no control token in the content, found ‡");
  const std::string open = "\n\n<‡function_calls>\n";
  EXPECT_EQ(error_of(open + "x", Mode::kChat),
            "byte 22: expected <‡call or </‡function_calls>, found \"x\"");
  EXPECT_EQ(error_of(open + "<‡call x</‡call", Mode::kChat),
            "byte 30: expected the head of an invoke, id=\"…\"> and a newline, found \" "
            "x</‡call\"");
  const std::string call = open + "<‡call id=\"f\">\n<‡arg";
  EXPECT_EQ(error_of(call + "x</‡arg", Mode::kChat),
            "byte 46: expected ' id=\"', found \"x</‡arg\"");
  EXPECT_EQ(error_of(call + " id=\"k\">x</‡arg", Mode::kChat),
            "byte 46: expected a parameter's name and text=\"true\"> or text=\"false\">, found "
            "\" id=\\\"k\\\">x</‡arg\"");
}

TEST(WireDialect, IsFoundByTheModelsType) {
  EXPECT_EQ(FindWireDialect("deepseek_v4").value(), &DeepSeekV4());
  EXPECT_THAT(WireDialectNames(), ElementsAre("deepseek_v4"));
  const auto unknown = FindWireDialect("deepseek_v9");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(unknown.error().message,
            "expected a family whose chat format is known (deepseek_v4), found \"deepseek_v9\"");
}

TEST(WireDialectDeathTest, AmbiguousTextsAreOurOwnMistake) {
  const auto with = [](auto change) {
    WireTexts texts = OtherDialect();
    change(texts);
    WireDialect dialect(std::move(texts));
  };
  EXPECT_DEATH(with([](WireTexts& texts) { texts.eos = ""; }), "dialect made_up: '' begins");
  EXPECT_DEATH(with([](WireTexts& texts) { texts.user = "[[U"; }), "'\\[\\[' begins '\\[\\[U'");
  EXPECT_DEATH(with([](WireTexts& texts) { texts.invoke = ""; }), "a word is empty");
}

}  // namespace
}  // namespace dsv4::chat
