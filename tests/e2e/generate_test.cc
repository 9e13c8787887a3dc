// `dsv4 generate` on a tiny model: what is printed, and that company changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/json_lines.h"
#include "tests/support/run_program.h"
#include "tests/support/tiny_model.h"
#include "tools/interrupt.h"
#include "tools/running_model.h"

namespace dsv4::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GenerateTest : public ::testing::Test {
 protected:
  ProgramResult Run(std::string_view prompts, std::vector<std::string> more) const {
    std::vector<std::string> command{DSV4_BINARY,   "generate",     "--model",
                                     model_.path(), "--input-file", "-"};
    command.insert(command.end(), more.begin(), more.end());
    return RunProgram(std::move(command), prompts);
  }
  // The objects of --jsonl, without what a clock says.
  std::vector<std::string> Lines(std::string_view prompts, std::vector<std::string> more) const {
    more.insert(more.end(), {"--jsonl", "--logprobs", "2"});
    const ProgramResult result = Run(prompts, std::move(more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> lines;
    std::string_view rest = result.out;
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      auto value = json::Parse(rest.substr(0, end));
      EXPECT_TRUE(value) << rest;
      EXPECT_GT(value->Find("time_to_first_token_s")->to_double(), 0);
      value->Set("time_to_first_token_s", {});
      value->Set("tokens_per_s", {});
      lines.push_back(json::Dump(*value));
      rest.remove_prefix(end + 1);
    }
    return lines;
  }
  json::Value One(std::string_view prompt, std::vector<std::string> more) const {
    const auto lines = Lines(prompt, std::move(more));
    EXPECT_EQ(lines.size(), 1u);
    return json::Parse(lines.at(0)).value();
  }

  TinyModel model_;
};

constexpr char kPrompts[] =
    "hello\n\nA second one,\nof two lines\n\n世界 and a longer text, so that the "
    "chunks of the three are cut at other places";

TEST_F(GenerateTest, PrintsPromptsAndCompletionsInOrder) {
  const ProgramResult result =
      Run("hello\n\nworld\n", {"--max-new-tokens", "4", "--temperature", "0"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, IsEmpty());
  const size_t second = result.out.find("\n\nPrompt: world\nCompletion: ");
  EXPECT_EQ(result.out.find("Prompt: hello\nCompletion: "), 0u);
  EXPECT_NE(second, std::string::npos);
  EXPECT_EQ(result.out.substr(result.out.size() - 2), "\n\n");
}

TEST_F(GenerateTest, WithASeedATextIsTheSameAloneAndInAnyBatchOnAnyThreads) {
  std::vector<std::string> options{"--max-new-tokens", "10",  "--seed",    "9",
                                   "--top-p",          "0.9", "--threads", "3"};
  const auto together = Lines(kPrompts, options);
  ASSERT_EQ(together.size(), 3u);
  options.back() = "1";
  const std::string prompts = kPrompts;
  const size_t second = prompts.find("A second"), third = prompts.find("世界");
  EXPECT_EQ(Lines(prompts.substr(0, second), options).at(0), together[0]);
  EXPECT_EQ(Lines(prompts.substr(second, third - second), options).at(0), together[1]);
  EXPECT_EQ(Lines(prompts.substr(third), options).at(0), together[2]);
  EXPECT_EQ(Lines(prompts.substr(third) + "\n\n" + prompts.substr(0, second), options).at(0),
            together[2]);
}

TEST_F(GenerateTest, EndsAtAStopStringAtTheLimitAndAtTheContext) {
  const std::vector<std::string> greedy{"--temperature", "0", "--max-new-tokens", "12"};
  const json::Value whole = One("hello", greedy);
  EXPECT_EQ(whole.Find("finish_reason")->as_string(), "length");
  EXPECT_EQ(whole.Find("token_ids")->items().size(), 12u);
  EXPECT_EQ(whole.Find("completion_tokens")->to_int64(), 12);
  const std::string text = whole.Find("text")->as_string();
  const size_t filler = text.find("iller");
  ASSERT_NE(filler, std::string::npos) << text;
  auto options = greedy;
  options.insert(options.end(), {"--stop", "never", "--stop", "iller"});
  const json::Value stopped = One("hello", options);
  EXPECT_EQ(stopped.Find("text")->as_string(), text.substr(0, filler));
  EXPECT_EQ(stopped.Find("finish_reason")->as_string(), "stop");
  EXPECT_EQ(stopped.Find("stop")->as_string(), "iller");
  options = greedy;
  options.insert(options.end(), {"--context", "11"});
  const json::Value full = One("hello", options);
  EXPECT_EQ(full.Find("finish_reason")->as_string(), "context");
  EXPECT_EQ(full.Find("prompt_tokens")->to_int64(), 6);
  EXPECT_EQ(full.Find("completion_tokens")->to_int64(), 5);
  EXPECT_TRUE(text.starts_with(full.Find("text")->as_string()));
}

TEST_F(GenerateTest, DefaultsComeFromTheFolderAndASeedIsDrawnAndSaid) {
  const std::vector<std::string> options{"--max-new-tokens", "8"};
  const json::Value drawn = One("hello", options);
  auto again = options;
  again.insert(again.end(), {"--seed", drawn.Find("seed")->number_text()});
  EXPECT_EQ(json::Dump(One("hello", again)), json::Dump(drawn));
  const json::Value other = One("hello", options);
  EXPECT_NE(other.Find("seed")->number_text(), drawn.Find("seed")->number_text());
  model_.folder().Write("generation_config.json", R"({"temperature": 0.0, "top_p": 0.5})");
  const json::Value greedy = One("hello", {"--max-new-tokens", "8", "--temperature", "0"});
  EXPECT_EQ(json::Dump(*One("hello", options).Find("text")), json::Dump(*greedy.Find("text")));
  model_.folder().Write("generation_config.json", R"({"temperature": "hot"})");
  const ProgramResult bad = Run("hello", options);
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_THAT(bad.err, HasSubstr("temperature: expected a number, found a string"));
}

TEST_F(GenerateTest, TheHelpNamesEveryMemberOfALine) {
  const std::string help = RunProgram({DSV4_BINARY, "generate", "--help"}).out;
  const json::Value line = One("hello", {"--max-new-tokens", "2", "--stop", "filler"});
  for (const auto& [key, value] : line.members()) EXPECT_THAT(help, HasSubstr(key));
  for (const char* reason : {"stop", "length", "context", "cancelled", "error"}) {
    EXPECT_THAT(help, HasSubstr("\"" + std::string(reason) + "\""));
  }
}

// In a process of its own, which a signal reaches before it has loaded anything.
TEST_F(GenerateTest, ASignalWhileLoadingIsAnErrorOfTheStart) {
  tools::EngineFlags flags;
  flags.model = model_.path();
  flags.threads = 1;
  const auto folder = tools::OpenModelFolder(flags);
  ASSERT_TRUE(folder) << folder.error().message;
  const auto interrupted = [&] {
    const tools::InterruptScope scope;
    std::raise(SIGINT);
    const auto running = tools::StartModel(flags, *folder, {}, {});
    return !running && running.error().message == "interrupted";
  };
  EXPECT_EXIT(std::exit(interrupted() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}

TEST_F(GenerateTest, LogitsThatAreNotFiniteAreAnErrorOfTheirPromptAndNoAnswer) {
  model_.FillWithNan("head.weight");
  const std::string found = "token 6: expected a largest logit that is finite, found 512 NaN";
  const ProgramResult text = Run("hello\n\nworld", {});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, IsEmpty());
  EXPECT_THAT(text.err, HasSubstr("dsv4: prompt 1: " + found));
  const ProgramResult lines = Run("hello\n\nworld", {"--jsonl"});
  EXPECT_EQ(lines.exit_code, 1);
  EXPECT_THAT(lines.err, HasSubstr("dsv4: prompt 1: " + found));
  const auto objects = ParseJsonLines(lines.out);
  ASSERT_EQ(objects.size(), 2u);
  for (const json::Value& object : objects) {
    EXPECT_EQ(object.Find("finish_reason")->as_string(), "error");
    EXPECT_THAT(object.Find("error")->as_string(), HasSubstr("found 512 NaN"));
    EXPECT_EQ(object.Find("completion_tokens")->to_int64(), 0);
  }
}

TEST_F(GenerateTest, LogprobsNeedTheFormThatHoldsThem) {
  const ProgramResult result = Run("hello", {"--logprobs", "2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--logprobs requires --jsonl"));
}

TEST_F(GenerateTest, FailuresNameTheirCauseAndHaveTheirExitCode) {
  const ProgramResult too_long = Run("short\n\na prompt of too many tokens", {"--context", "20"});
  EXPECT_EQ(too_long.exit_code, 4);
  EXPECT_THAT(too_long.err, HasSubstr("prompt 2: the prompt has"));
  EXPECT_THAT(too_long.err, HasSubstr("in a context of 20"));
  EXPECT_THAT(too_long.out, IsEmpty());
  const ProgramResult too_big = Run("hello", {"--context", "5000"});
  EXPECT_EQ(too_big.exit_code, 4);
  EXPECT_THAT(too_big.err, HasSubstr("a context of 5000 tokens is more than the model's 1024"));
  EXPECT_EQ(Run(" \n", {}).exit_code, 3);
  EXPECT_EQ(Run("hello", {"--top-p", "0"}).exit_code, 2);
  EXPECT_EQ(Run("hello", {"--mode", "loud"}).exit_code, 2);
  EXPECT_THAT(Run("hello", {"--effort", "high"}).err, HasSubstr("--effort high needs --mode"));
  EXPECT_EQ(Run("hello", {"--input-file", "/nowhere"}).exit_code, 2) << "said twice";
  model_.folder().Write("tokenizer.json", ChatTokenizerJson(600));
  const ProgramResult mismatch = Run("hello", {});
  EXPECT_EQ(mismatch.exit_code, 3);
  EXPECT_THAT(mismatch.err,
              HasSubstr("tokenizer.json has 600 tokens, config.json has vocab_size 512"));
}

}  // namespace
}  // namespace dsv4::testing
