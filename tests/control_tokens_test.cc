// No text that a caller supplies becomes a control token, whatever it spells.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/utf8.h"
#include "tests/support/published_tokenizer.h"
#include "text/chat_encoding.h"

namespace dsv4 {
namespace {

using ControlTokens = testing::PublishedTokenizerTest;
using json::Value;

Value Text(const std::string& text) { return Value::String(text); }

Value Message(const std::string& role, json::Value::Object members) {
  members.insert(members.begin(), {"role", Text(role)});
  return Value::MakeObject(std::move(members));
}

// A conversation that has `text` in every place that takes a caller's text.
Value Everywhere(const std::string& text) {
  const Value function = Value::MakeObject(
      {{"name", Text(text)},
       {"arguments", Text(json::Dump(Value::MakeObject(
                         {{text, Text(text)}, {"list", Value::MakeArray({Text(text)})}})))}});
  const Value call = Value::MakeObject({{"id", Text("1")}, {"function", function}});
  const Value tool = Value::MakeObject(
      {{"function", Value::MakeObject({{"name", Text(text)},
                                       {"description", Text(text)},
                                       {"parameters", Value::MakeObject({{text, Text(text)}})}})}});
  const Value format = Value::MakeObject({{"type", Text("json_schema")}, {text, Text(text)}});
  return Value::MakeArray({Message("system", {{"content", Text(text)},
                                              {"tools", Value::MakeArray({tool})},
                                              {"response_format", format}}),
                           Message("latest_reminder", {{"content", Text(text)}}),
                           Message("developer", {{"content", Text(text)}}),
                           Message("user", {{"content", Text(text)}}),
                           Message("assistant", {{"content", Text(text)},
                                                 {"reasoning_content", Text(text)},
                                                 {"tool_calls", Value::MakeArray({call})}}),
                           Message("tool", {{"content", Text(text)}, {"tool_call_id", Text("1")}}),
                           Message("user", {{"content", Text(text)}})});
}

// How often `text` stands in each place of Everywhere.
constexpr size_t kNumPlaces = 18;

TEST_F(ControlTokens, AllVocabularyStringsThroughEveryPlaceStayPlainText) {
  constexpr int32_t kBatch = 4000;
  for (int32_t first = 0; first < tokenizer().vocab_size(); first += kBatch) {
    std::string text;
    const int32_t end = std::min(first + kBatch, tokenizer().vocab_size());
    for (int32_t id = first; id < end; ++id) {
      text += utf8::Sanitize(tokenizer().TokenBytes(id));
      // Both alone and beside others: every second one touches the next.
      if (id % 2 == 0) text += '\n';
    }
    const auto prompt = chat::Encode(chat::DeepSeekV4(), Everywhere(text), nullptr,
                                     {.mode = chat::Mode::kThinking});
    ASSERT_TRUE(prompt) << prompt.error().message;
    ASSERT_GT(prompt->text.size(), kNumPlaces * text.size());
    const auto ids = tokenizer().EncodeWithSpans(prompt->text, prompt->control_spans);
    ASSERT_TRUE(ids) << ids.error().message;
    // The only added tokens are those that the encoder wrote, in order.
    std::vector<int32_t> found, expected;
    for (const int32_t id : *ids) {
      if (tokenizer().IsAdded(id)) found.push_back(id);
    }
    for (const TextSpan& span : prompt->control_spans) {
      expected.push_back(
          tokenizer()
              .FindAdded(std::string_view(prompt->text).substr(span.begin, span.end - span.begin))
              .value());
    }
    ASSERT_EQ(found, expected) << "ids " << first << " to " << end - 1;
    ASSERT_EQ(tokenizer().Decode(*ids, false), prompt->text);
  }
}

// The control tokens of a conversation do not depend on what its text spells.
TEST_F(ControlTokens, SuppliedTextAddsNoSpan) {
  const auto spans_of = [](const std::string& text) {
    const auto prompt = chat::Encode(chat::DeepSeekV4(), Everywhere(text), nullptr,
                                     {.mode = chat::Mode::kThinking});
    std::vector<std::string> spelled;
    for (const TextSpan& span : prompt.value().control_spans) {
      spelled.push_back(prompt->text.substr(span.begin, span.end - span.begin));
    }
    return spelled;
  };
  const std::vector<std::string> harmless = spans_of("harmless");
  EXPECT_GT(harmless.size(), 10u);
  for (int32_t id = 0; id < tokenizer().vocab_size(); ++id) {
    if (!tokenizer().IsAdded(id)) continue;
    ASSERT_EQ(spans_of(std::string(tokenizer().TokenBytes(id))), harmless) << id;
  }
}

TEST_F(ControlTokens, WithoutSuchTextSpansGiveTheIdsOfMatchingThemAnywhere) {
  const auto prompt =
      chat::Encode(chat::DeepSeekV4(), Everywhere("Nothing < special | here, 中文 12345.\n\n"),
                   nullptr, {.mode = chat::Mode::kThinking});
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(tokenizer().EncodeWithSpans(prompt->text, prompt->control_spans).value(),
            tokenizer().Encode(prompt->text, AddedTokenText::kTokens));
}

}  // namespace
}  // namespace dsv4
