// What every subcommand shares: words and numbers on the command line, and models that fail it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/run_dsv4.h"
#include "tests/support/tiny_model.h"

namespace dsv4::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramResult Generate(std::vector<std::string> more, std::string_view prompt = "hi") const {
    std::vector<std::string> command{DSV4_BINARY, "generate", "--model", model_.path()};
    command.insert(command.end(), more.begin(), more.end());
    return RunProgram(std::move(command), prompt);
  }
  static ProgramResult Shell(const std::string& line) {
    return RunProgram({"/bin/sh", "-c", line, "sh", DSV4_BINARY});
  }

  TinyModel model_;
};

TEST_F(ProgramTest, NumbersThatCannotBeMeantAreUsageErrors) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--seed", "-1"},       {"--seed", "18446744073709551616"},
      {"--top-p", "0"},       {"--max-new-tokens", "9223372036854775808"},
      {"--top-p", "nan"},     {"--temperature", "nan"},
      {"--threads", "0"},     {"--context", "0"},
      {"--logprobs", "1001"}, {"--max-new-tokens", "0"},
  };
  for (const std::vector<std::string>& option : wrong) {
    const ProgramResult result = Generate({"--input-file", "-", option[0], option[1]});
    EXPECT_EQ(result.exit_code, 2) << option[0] << ' ' << option[1];
    EXPECT_THAT(result.err, HasSubstr(option[0] + ": expected a "));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(ProgramTest, TheLargestNumberOfNewTokensEndsAtTheContext) {
  const ProgramResult result = Generate({"--input-file", "-", "--context", "40", "--max-new-tokens",
                                         "9223372036854775807", "--temperature", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(ProgramTest, AMessageNamesThePromptThatCannotBeEncoded) {
  const ProgramResult result = Generate({"--input-file", "-"}, "good\n\n\xED\xA0\x80\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("dsv4: prompt 2: messages[0].content"));
}

TEST_F(ProgramTest, DefaultsOfTheModelAreChecked) {
  for (const std::string_view wrong : {"[]", "{\"top_p\":0}", "{\"temperature\":NaN}",
                                       "{\"temperature\":1e400}", "{\"temperature\":\"1\"}"}) {
    model_.folder().Write("generation_config.json", wrong);
    const ProgramResult result = Generate({"--input-file", "-"});
    EXPECT_EQ(result.exit_code, 3) << wrong;
    EXPECT_THAT(result.err, HasSubstr("generation_config.json: ")) << wrong;
  }
}

// Half of the vocabulary can still be sampled.
TEST_F(ProgramTest, LogprobsOfABrokenModelAreStillJson) {
  model_.FillWithNan("head.weight", 0.5);
  const ProgramResult result =
      Generate({"--input-file", "-", "--max-new-tokens", "2", "--jsonl", "--logprobs", "500"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              ::testing::AllOf(HasSubstr("\"logprob\": null"), ::testing::Not(HasSubstr("NaN"))));
}

TEST_F(ProgramTest, AWordThatIsNoVerbIsNamedBesideTheVerbsThereAre) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"bogus"}, "dsv4: there is no verb bogus; there are the verbs chat, generate, "},
      {{"bogus", "--model", "x"}, "dsv4: there is no verb bogus; "},
      {{"--bogus"}, "dsv4: there is no option --bogus; there are the verbs chat, "},
      {{"ops", "bogus"}, "dsv4 ops: there is no verb bogus; there are the verbs list, golden, "},
      {{}, "A subcommand is required"},
      {{"ops"}, "A subcommand is required"},
      {{"ops", "list", "bogus"}, "dsv4 ops list: not expected: bogus ("},
      {{"inspect", "models/demo"},
       "dsv4 inspect: not expected: models/demo; --model is required ("},
      {{"chat", "--modle", "X"}, "dsv4 chat: there is no option --modle; --model is required ("},
      {{"chat"}, "dsv4 chat: --model is required (dsv4 chat --help tells more)"},
      {{"chat", "--model", "X", "--threads", "0"}, "dsv4 chat: --threads: expected a whole number"},
  };
  for (const auto& [words, message] : cases) {
    const ProgramResult result = RunDsv4(words);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

TEST_F(ProgramTest, AnEmptyStopStringIsAUsageError) {
  for (const char* const verb : {"generate", "chat"}) {
    const ProgramResult result =
        RunDsv4({verb, "--model", model_.path(), "--stop", "a", "--stop", ""});
    EXPECT_EQ(result.exit_code, 2) << verb;
    EXPECT_THAT(result.err, HasSubstr("--stop: expected a text, found an empty one"));
  }
}

TEST_F(ProgramTest, HelpThatCannotBeWrittenFails) {
  for (const std::string what : {"--version", "--help", "generate --help"}) {
    const ProgramResult result = Shell("\"$1\" " + what + " > /dev/full");
    EXPECT_EQ(result.exit_code, 1) << what;
    EXPECT_THAT(result.err, HasSubstr("standard output cannot be written"));
  }
}

// As `dsv4 … | head` does: a reader that had enough.
TEST_F(ProgramTest, AReaderThatWentAwayIsTheEndWithoutAWord) {
  const std::string options = " --model '" + model_.path() + "' ";
  for (const std::string& command :
       {std::string("--help"), std::string("ops list"), std::string("ops check -o rope"),
        "inspect" + options, "trace --list-taps" + options,
        "generate --input-file - --jsonl" + options, "chat --max-new-tokens 2" + options}) {
    const ProgramResult result =
        RunProgram({"/bin/sh", "-c",
                    "{ trap '' PIPE; while printf x; do :; done 2>/dev/null; echo hello | \"$1\" " +
                        command + "; echo code $? >&2; } | :",
                    "sh", DSV4_BINARY});
    EXPECT_EQ(result.err, "code 1\n") << command;
  }
}

// What is said beside the data must not cost the data.
TEST_F(ProgramTest, AFullStandardErrorLeavesStandardOutput) {
  const std::string options = " --model '" + model_.path() + "' ";
  for (const std::string& command : {"tokenize --stats" + options, "inspect" + options}) {
    const ProgramResult said = Shell("echo hello | \"$1\" " + command);
    const ProgramResult full = Shell("echo hello | \"$1\" " + command + " 2> /dev/full");
    EXPECT_EQ(full.exit_code, 0) << command;
    EXPECT_THAT(full.out, Not(IsEmpty()));
    EXPECT_EQ(full.out, said.out);
  }
}

TEST_F(ProgramTest, ChatSaysWhenStandardInputCannotBeRead) {
  const ProgramResult result = Shell("\"$1\" chat --model '" + model_.path() + "' < /");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("standard input cannot be read"));
}

}  // namespace
}  // namespace dsv4::testing
