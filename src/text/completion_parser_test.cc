#include "text/completion_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/json_lines.h"

namespace dsv4::chat {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Message(std::string_view completion, Mode mode = Mode::kChat) {
  const auto message = ParseCompletion(DeepSeekV4(), completion, mode);
  return message ? json::Dump(message->ToJson()) : message.error().message;
}

std::string Block(std::string_view invokes) {
  return fmt::format("\n\n<｜DSML｜tool_calls>\n{}</｜DSML｜tool_calls>", invokes);
}

std::string ArgumentsOf(std::string_view invoke) {
  const auto message = ParseCompletion(DeepSeekV4(), Block(invoke), Mode::kChat);
  return message ? message->tool_calls.at(0).arguments : message.error().message;
}

TEST(CompletionParser, AllGoldenCompletionsGiveTheirMessageOrAnError) {
  int num_messages = 0;
  int num_errors = 0;
  for (const json::Value& line : testing::ReadJsonLines("encoding/cases.jsonl")) {
    const json::Value* completion = line.Find("completion");
    if (completion == nullptr) continue;
    const std::string& id = line.Find("id")->as_string();
    const Mode mode = *ModeFromName(line.Find("mode")->as_string());
    const auto message = ParseCompletion(DeepSeekV4(), completion->as_string(), mode);
    if (line.Find("error") != nullptr) {
      ++num_errors;
      EXPECT_FALSE(message) << id;
      EXPECT_THAT(message ? "" : message.error().message, StartsWith("byte ")) << id;
      continue;
    }
    ++num_messages;
    ASSERT_TRUE(message) << id << ": " << message.error().message;
    EXPECT_EQ(json::Dump(message->ToJson()), json::Dump(*line.Find("message"))) << id;
  }
  EXPECT_EQ(num_messages, 199);
  EXPECT_EQ(num_errors, 51);
}

TEST(CompletionParser, ErrorsNameTheByteWhatWasExpectedAndWhatWasFound) {
  EXPECT_EQ(Message("abc"),
            "byte 3: expected <｜end▁of▁sentence｜> after the content, found the end");
  EXPECT_EQ(Message("abc", Mode::kThinking),
            "byte 3: expected </think> before the content, found the end");
  EXPECT_EQ(Message("ab<think>c<｜end▁of▁sentence｜>"),
            "byte 2: expected no control token in the content, found <think>");
  EXPECT_EQ(Message("a\xff"), "byte 1: expected UTF-8, found byte 0xFF");
  EXPECT_EQ(Message("<｜end▁of▁sentence｜>é"),
            "byte 27: expected the end after <｜end▁of▁sentence｜>, found \"é\"");
  EXPECT_EQ(Message(Block("x")),
            "byte 25: expected <｜DSML｜invoke or </｜DSML｜tool_calls>, found "
            "\"x</｜DSML｜tool_calls>\"");
}

TEST(CompletionParser, TheBlockMayEndTheTextAndMayBeEmpty) {
  EXPECT_THAT(Message("hi" + Block("")), HasSubstr(R"("content": "hi")"));
  EXPECT_THAT(Message("hi" + Block("") + "<｜end▁of▁sentence｜>"),
              HasSubstr(R"("tool_calls": [])"));
  EXPECT_THAT(Message(Block("") + "x"), StartsWith("byte 48: expected <｜end▁of▁sentence｜>"));
  EXPECT_THAT(Message("a\n\n<｜DSML｜tool_calls"), StartsWith("byte 24: expected '>'"));
}

TEST(CompletionParser, InvokeHeadsAllowPythonsWhiteSpaceAndAnEmptyLineWithoutParameters) {
  const auto name_of = [](std::string_view invoke) {
    const auto message = ParseCompletion(DeepSeekV4(), Block(invoke), Mode::kChat);
    return message ? message->tool_calls.at(0).name : "error";
  };
  EXPECT_EQ(name_of("<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n"), "f");
  EXPECT_EQ(name_of("<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n"), "f");
  EXPECT_EQ(name_of("<｜DSML｜invokename=\"f\">\n</｜DSML｜invoke>\n"), "f");
  EXPECT_EQ(name_of("<｜DSML｜invoke \u2003\n\x1c name=\"f\">\n</｜DSML｜invoke>\n"), "f");
  EXPECT_EQ(name_of("<｜DSML｜invoke name=\"a\">\nb\">\n</｜DSML｜invoke>\n"), "a\">\nb");
  EXPECT_EQ(name_of("<｜DSML｜invoke name=\"f\">\n\n\n</｜DSML｜invoke>\n"), "error");
  EXPECT_EQ(name_of("<｜DSML｜invoke name=\"f\">\n\n<｜DSML｜parameter name=\"k\" "
                    "string=\"true\">v</｜DSML｜parameter>\n</｜DSML｜invoke>\n"),
            "error");
  EXPECT_EQ(name_of("<｜DSML｜invoke\u200b name=\"f\">\n</｜DSML｜invoke>\n"), "error");
}

TEST(CompletionParser, ParametersRunToTheFirstCloseAndKeepTheirText) {
  const auto with = [](std::string_view parameters) {
    return ArgumentsOf(
        fmt::format("<｜DSML｜invoke name=\"f\">\n{}</｜DSML｜invoke>\n", parameters));
  };
  const auto parameter = [](std::string_view name, std::string_view mark, std::string_view value) {
    return fmt::format("<｜DSML｜parameter name=\"{}\" string=\"{}\">{}</｜DSML｜parameter>\n",
                       name, mark, value);
  };
  EXPECT_EQ(with(""), "{}");
  EXPECT_EQ(
      with(parameter("k", "true", "a\"\n<｜end▁of▁sentence｜>") + parameter("n", "false", " {x ")),
      "{\"k\": \"a\\\"\\n<｜end▁of▁sentence｜>\", \"n\":  {x }");
  EXPECT_EQ(with(parameter("q\"uote", "false", "")), "{\"q\\\"uote\": }");
  EXPECT_EQ(with(parameter("a\" string=\"yes", "true", "v")), "{\"a\\\" string=\\\"yes\": \"v\"}");
  EXPECT_EQ(with(parameter("a", "true", "v\" string=\"false\">w")),
            "{\"a\": \"v\\\" string=\\\"false\\\">w\"}");
  EXPECT_THAT(with(parameter("k", "true", "1") + parameter("k", "true", "2")),
              HasSubstr("expected each parameter once, found a second \"k\""));
  EXPECT_THAT(with("<｜DSML｜parameter name=\"k\" string=\"true\">v/｜DSML｜parameter>\n"),
              HasSubstr("expected '<'"));
  EXPECT_THAT(with("<｜DSML｜parameter  name=\"k\" string=\"true\">v</｜DSML｜parameter>\n"),
              HasSubstr("expected ' name=\"'"));
}

}  // namespace
}  // namespace dsv4::chat
