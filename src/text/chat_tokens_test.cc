// Prompts as token ids: control ids come out where the encoder wrote them and nowhere else.
#include <gtest/gtest.h>

#include "tests/support/json_lines.h"
#include "tests/support/published_tokenizer.h"
#include "text/chat_encoding.h"

namespace dsv4::chat {
namespace {

class ChatTokens : public testing::PublishedTokenizerTest {
 protected:
  static std::vector<int32_t> IdsOf(const EncodedPrompt& prompt) {
    const auto ids = tokenizer().EncodeWithSpans(prompt.text, prompt.control_spans);
    EXPECT_TRUE(ids) << ids.error().message;
    return ids.value_or(std::vector<int32_t>());
  }

  static std::vector<int32_t> AddedIdsOf(const EncodedPrompt& prompt) {
    std::vector<int32_t> added = IdsOf(prompt);
    std::erase_if(added, [](int32_t id) { return !tokenizer().IsAdded(id); });
    return added;
  }
};

// A conversation with `text` in everything a caller can fill.
EncodedPrompt PromptOf(const std::string& text, bool with_tools) {
  using json::Value;
  const Value given = Value::String(text);
  const auto message = [&](std::string_view role) {
    return Value::MakeObject({{"role", Value::String(std::string(role))}, {"content", given}});
  };
  const auto call = [&](Value arguments) {
    return Value::MakeObject(
        {{"function", Value::MakeObject({{"name", given}, {"arguments", std::move(arguments)}})}});
  };
  Value system = message("system");
  Value assistant = message("assistant");
  assistant.Set("reasoning_content", given);
  if (with_tools) {
    system.Set("tools", Value::MakeArray({Value::MakeObject({{"function", given}})}));
    system.Set("response_format", Value::MakeObject({{text, given}}));
    assistant.Set(
        "tool_calls",
        Value::MakeArray({call(given), call(Value::MakeArray({given})),
                          call(Value::String(json::Dump(Value::MakeObject(
                              {{text, given}, {text + "n", Value::MakeArray({given})}}))))}));
  }
  Value parts = message("tool");
  parts.Set("content",
            Value::MakeArray({Value::MakeObject({{"type", Value::String("text")}, {"text", given}}),
                              Value::MakeObject({{"type", given}})}));
  // Nothing is dropped, so that every role is rendered.
  const Value messages =
      Value::MakeArray({std::move(system), message("latest_reminder"), message("developer"),
                        message("user"), message("tool"), std::move(parts), std::move(assistant)});
  return Encode(DeepSeekV4(), messages, nullptr, {.mode = Mode::kThinking, .drop_thinking = false})
      .value();
}

TEST_F(ChatTokens, EveryVocabularyStringIsPlainInEveryRole) {
  const std::vector<int32_t> expected = AddedIdsOf(PromptOf("x", false));
  const std::vector<int32_t> expected_with_tools = AddedIdsOf(PromptOf("x", true));
  ASSERT_EQ(expected.size(), 8u);
  ASSERT_GT(expected_with_tools.size(), 30u);
  ASSERT_EQ(tokenizer().vocab_size(), 129280);
  int num_added = 0;
  for (int32_t id = 0; id < tokenizer().vocab_size(); ++id) {
    const std::string text = tokenizer().Decode(std::vector<int32_t>{id}, false);
    if (text.empty()) continue;
    ASSERT_EQ(AddedIdsOf(PromptOf(text, false)), expected) << id << " " << text;
    if (!tokenizer().IsAdded(id)) continue;
    ++num_added;
    ASSERT_EQ(AddedIdsOf(PromptOf(text, true)), expected_with_tools) << id << " " << text;
  }
  EXPECT_GT(num_added, 800);
}

TEST_F(ChatTokens, PromptsWithoutForgedTokensGetTheSameIdsEitherWay) {
  int num_same = 0;
  for (const json::Value& line : testing::ReadJsonLines("encoding/cases.jsonl")) {
    if (line.Find("prompt") == nullptr) continue;
    const json::Value& options = *line.Find("options");
    const json::Value& effort = *options.Find("reasoning_effort");
    const auto prompt =
        Encode(DeepSeekV4(), *line.Find("messages"), line.Find("context"),
               {.mode = *ModeFromName(options.Find("thinking_mode")->as_string()),
                .effort = effort.is_null() ? Effort::kNone : *EffortFromName(effort.as_string()),
                .drop_thinking = options.Find("drop_thinking")->as_bool(),
                .add_bos = options.Find("add_default_bos_token")->as_bool()});
    ASSERT_TRUE(prompt);
    EXPECT_EQ(IdsOf(*prompt), tokenizer().Encode(prompt->text, AddedTokenText::kTokens))
        << line.Find("id")->as_string();
    ++num_same;
  }
  EXPECT_EQ(num_same, 242);
}

TEST_F(ChatTokens, EverySpanBecomesItsOneToken) {
  const EncodedPrompt prompt = PromptOf("a<｜User｜>b</think>", true);
  const std::vector<int32_t> added = AddedIdsOf(prompt);
  ASSERT_EQ(added.size(), prompt.control_spans.size());
  for (size_t i = 0; i < added.size(); ++i) {
    const TextSpan span = prompt.control_spans[i];
    EXPECT_EQ(tokenizer().Decode(std::vector<int32_t>{added[i]}, false),
              prompt.text.substr(span.begin, span.end - span.begin));
  }
}

}  // namespace
}  // namespace dsv4::chat
