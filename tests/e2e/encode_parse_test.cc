// dsv4 encode and parse as a user or a program runs them.
#include <gmock/gmock.h>

#include <sstream>

#include "base/json.h"
#include "tests/support/json_lines.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/terminal.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;
using testing::ParseJsonLines;
using testing::ProgramResult;
using testing::RunDsv4;
using ::testing::StartsWith;

// The golden cases that hold `key` are the input as they are; each answer must hold the case's id
// and its `answer`, or an error where the case is one.
void ExpectGoldenAnswers(const std::string& verb, const char* key, const char* answer,
                         size_t num_cases) {
  std::string input;
  std::vector<json::Value> cases;
  for (json::Value& line : testing::ReadJsonLines("encoding/cases.jsonl")) {
    if (line.Find(key) == nullptr) continue;
    input += json::Dump(line) + '\n';
    cases.push_back(std::move(line));
  }
  ASSERT_EQ(cases.size(), num_cases);
  const ProgramResult result = RunDsv4({verb, "--batch"}, input);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::vector<json::Value> found = ParseJsonLines(result.out);
  ASSERT_EQ(found.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    const bool is_error = cases[i].Find("error") != nullptr;
    ASSERT_EQ(found[i].members().size(), 2u);
    EXPECT_EQ(json::Dump(*found[i].Find("id")), json::Dump(*cases[i].Find("id")));
    const json::Value* given = found[i].Find(is_error ? "error" : answer);
    ASSERT_NE(given, nullptr) << json::Dump(found[i]);
    if (!is_error) {
      EXPECT_EQ(json::Dump(*given), json::Dump(*cases[i].Find(answer)));
    }
  }
}

TEST(EncodeCommand, GoldenCasesInBatch) {
  ExpectGoldenAnswers("encode", "messages", "prompt", 250);
}

TEST(ParseCommand, GoldenCasesInBatch) {
  ExpectGoldenAnswers("parse", "completion", "message", 250);
}

TEST(EncodeCommand, WritesThePromptsBytesAndNoNewline) {
  const std::string messages = R"([{"role":"user","content":"é"}])";
  EXPECT_EQ(RunDsv4({"encode"}, messages).out,
            "<｜begin▁of▁sentence｜><｜User｜>é<｜Assistant｜></think>");
  EXPECT_EQ(RunDsv4({"encode", "--mode", "thinking", "--no-bos"}, messages).out,
            "<｜User｜>é<｜Assistant｜><think>");
  EXPECT_THAT(RunDsv4({"encode", "--mode", "thinking", "--effort", "max"}, messages).out,
              StartsWith("<｜begin▁of▁sentence｜>Reasoning Effort: Absolute maximum"));
  const std::string turns =
      R"([{"role":"user","content":"a"},{"role":"assistant","reasoning_content":"r","content":"b"},
          {"role":"user","content":"c"}])";
  EXPECT_THAT(RunDsv4({"encode", "--mode", "thinking"}, turns).out, HasSubstr("</think>b"));
  EXPECT_THAT(RunDsv4({"encode", "--mode", "thinking", "--no-drop-thinking"}, turns).out,
              HasSubstr("<think>r</think>b"));
}

TEST(EncodeCommand, ATerminalNeedsOneCtrlDAndGetsALineEnd) {
  testing::Terminal terminal({DSV4_BINARY, "encode"}, {});
  terminal.Type("[{\"role\":\"user\",\"content\":\"hi\"}]\n\x04");
  ASSERT_TRUE(terminal.WaitFor("<｜Assistant｜></think>\r\n")) << terminal.screen();
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST(ParseCommand, WritesTheMessageAsJson) {
  EXPECT_EQ(RunDsv4({"parse", "--mode", "thinking"}, "hm</think>é<｜end▁of▁sentence｜>").out,
            R"({"role": "assistant", "content": "é", "reasoning_content": "hm", "tool_calls": []})"
            "\n");
}

TEST(EncodeCommand, ABadLineIsAnsweredAndTheNextGoesOn) {
  const ProgramResult result = RunDsv4(
      {"encode", "--batch"},
      "{\"id\":1}\n"
      "{\"id\":2\n"
      "{\"id\":3,\"messages\":[{\"role\":\"x\"}]}\n"
      "{\"id\":4,\"messages\":[],\"options\":{\"thinking_mode\":\"loud\"}}\n"
      "{\"id\":5,\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
      "\"options\":{\"thinking_mode\":\"loud\"}}\n"
      "{\"id\":6,\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
      "\"options\":{\"reasoning_effort\":\"low\"}}\n"
      "{\"id\":7,\"messages\":[],\"options\":{\"drop_thinking\":1}}\n"
      "{\"id\":8,\"messages\":[],\"options\":[]}\n"
      "{\"id\":9,\"messages\":[],\"options\":{\"add_default_bos_token\":false}}\n"
      "{\"id\":10,\"messages\":[],\"options\":{\"mode\":\"thinking\"}}\n"
      "{\"id\":11,\"messages\":[],\"mode\":\"thinking\"}\n"
      "{\"id\":12,\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"prompt\":\"recorded\","
      "\"options\":{\"add_default_bos_token\":false,\"reasoning_effort\":\"none\"}}\n"
      "{\"id\":13,\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"
      "\"options\":{\"add_default_bos_token\":false,\"reasoning_effort\":null}}");
  EXPECT_EQ(result.exit_code, 0);
  std::istringstream lines(result.out);
  const auto next = [&] {
    std::string line;
    std::getline(lines, line);
    return json::Dump(json::Parse(line).value());
  };
  EXPECT_EQ(next(), R"({"id": 1, "error": "messages: expected an array, found nothing"})");
  EXPECT_THAT(next(), StartsWith(R"({"id": null, "error": "line: byte 7: expected )"));
  EXPECT_THAT(next(), StartsWith(R"({"id": 3, "error": "messages[0].role: expected system,)"));
  EXPECT_EQ(next(), R"({"id": 4, "prompt": "<｜begin▁of▁sentence｜>"})") << "nothing is rendered";
  EXPECT_EQ(next(),
            R"({"id": 5, "error": "options.thinking_mode: expected \"chat\" or \"thinking\", )"
            R"(found \"loud\""})");
  EXPECT_EQ(next(), R"({"id": 6, "error": "options.reasoning_effort: expected \"none\", )"
                    R"(\"high\" or \"max\", found \"low\""})");
  EXPECT_EQ(next(),
            R"({"id": 7, "error": "options.drop_thinking: expected true or false, found 1"})");
  EXPECT_EQ(next(), R"({"id": 8, "error": "options: expected an object, found an array"})");
  EXPECT_EQ(next(), R"({"id": 9, "prompt": ""})");
  EXPECT_EQ(next(),
            R"({"id": 10, "error": "options: mode: no such member; known are thinking_mode, )"
            R"(drop_thinking, add_default_bos_token, reasoning_effort"})");
  EXPECT_EQ(next(), R"({"id": 11, "error": "mode: no such member; known are id, messages, )"
                    R"(context, options"})");
  EXPECT_EQ(next(), R"({"id": 12, "prompt": "<｜User｜><｜Assistant｜></think>"})");
  EXPECT_EQ(next(), R"({"id": 13, "prompt": "<｜User｜><｜Assistant｜></think>"})");
}

TEST(ParseCommand, ABadLineIsAnsweredAndTheNextGoesOn) {
  const ProgramResult result =
      RunDsv4({"parse", "--batch", "--mode", "thinking"},
              "{\"id\":\"a\",\"completion\":\"x\"}\n"
              "{\"id\":\"b\",\"completion\":\"x<｜end▁of▁sentence｜>\",\"mode\":\"chat\"}\n"
              "{\"id\":\"c\",\"completion\":\"x\",\"mode\":\"loud\"}\n"
              "{\"id\":\"d\"}\n"
              "{\"id\":\"e\",\"completion\":\"x\",\"Mode\":\"chat\"}\n");
  EXPECT_EQ(result.exit_code, 0);
  const std::vector<json::Value> lines = ParseJsonLines(result.out);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].Find("error")->as_string(),
            "completion: byte 1: expected </think> before the content, found the end");
  EXPECT_EQ(lines[1].Find("message")->Find("content")->as_string(), "x");
  EXPECT_EQ(lines[2].Find("error")->as_string(),
            "mode: expected \"chat\" or \"thinking\", found \"loud\"");
  EXPECT_EQ(lines[3].Find("error")->as_string(), "completion: expected a string, found nothing");
  EXPECT_EQ(lines[4].Find("error")->as_string(),
            "Mode: no such member; known are id, completion, mode");
}

TEST(EncodeCommand, ExitCodesSayWhatWasWrong) {
  EXPECT_THAT(RunDsv4({"encode"}, "not json").err,
              HasSubstr("standard input: byte 0: expected a JSON value, found 'n'"));
  const ProgramResult no_json = RunDsv4({"encode"}, "[{]");
  EXPECT_EQ(no_json.exit_code, 3);
  EXPECT_EQ(no_json.out, "");
  EXPECT_THAT(no_json.err, HasSubstr("standard input: byte 2: expected a member's name"));
  const ProgramResult bad_role = RunDsv4({"encode"}, R"([{"role":"x"}])");
  EXPECT_EQ(bad_role.exit_code, 3);
  EXPECT_EQ(bad_role.out, "");
  EXPECT_THAT(bad_role.err, HasSubstr("messages[0].role"));
  EXPECT_EQ(RunDsv4({"encode", "--mode", "loud"}, "[]").exit_code, 2);
  EXPECT_EQ(RunDsv4({"encode", "--effort", "low"}, "[]").exit_code, 2);
  const ProgramResult effort = RunDsv4({"encode", "--effort", "max"}, "[]");
  EXPECT_EQ(effort.exit_code, 2);
  EXPECT_EQ(effort.err, "dsv4: --effort max needs --mode thinking\n");
  EXPECT_EQ(RunDsv4({"encode", "--effort", "none"}, "[]").exit_code, 0);
  const ProgramResult cut = RunDsv4({"parse", "--mode", "chat"}, "x");
  EXPECT_EQ(cut.exit_code, 3);
  EXPECT_THAT(cut.err, HasSubstr("standard input: byte 1: expected <｜end▁of▁sentence｜>"));
  for (const char* verb : {"encode", "parse"}) {
    const ProgramResult help = RunDsv4({verb, "--help"}, "");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example: "));
  }
}

}  // namespace
}  // namespace dsv4
