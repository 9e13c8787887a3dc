// One rule for all verbs: an input file that cannot be opened is bad input (3), and the message
// says which and why; what cannot be written is a failure (1).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/run_dsv4.h"
#include "tests/support/tiny_model.h"

namespace dsv4::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Words of a command that stand for paths of the test.
constexpr char kInput[] = "@input";       // the one that cannot be opened
constexpr char kModel[] = "@model";       // a good model
constexpr char kOutput[] = "@output";     // a name where a file or folder can be made
constexpr char kCaseOfInput[] = "@case";  // a file with a trace case whose h is in the input

const std::vector<std::string> kReaders[] = {
    {"inspect", "--model", kInput},
    {"convert", "--hf-ckpt-path", kInput, "--save-path", kOutput, "--n-experts", "8",
     "--model-parallel", "1"},
    {"synth", "--preset", "tiny-flash", "--out", kOutput, "--tokenizer", kInput},
    {"tokenize", "--tokenizer", kInput},
    {"tokenize", "--model", kInput},
    {"detokenize", "--tokenizer", kInput},
    {"detokenize", "--model", kInput},
    {"generate", "--model", kInput, "--input-file", "-"},
    {"generate", "--model", kModel, "--input-file", kInput},
    {"chat", "--model", kInput},
    {"trace", "--model", kInput, "--list-taps"},
    {"trace", "--model", kModel, "--cases", kInput, "--out", kOutput},
    {"trace", "--model", kModel, "--cases", kCaseOfInput, "--out", kOutput},
    {"ops", "golden", kInput},
};

class InputFilesTest : public ::testing::Test {
 protected:
  ProgramResult Run(const std::vector<std::string>& words, const std::string& input,
                    const std::string& output) const {
    std::vector<std::string> command;
    for (const std::string& word : words) {
      if (word == kInput) {
        command.push_back(input);
      } else if (word == kModel) {
        command.push_back(model_.path());
      } else if (word == kOutput) {
        command.push_back(output);
      } else if (word == kCaseOfInput) {
        command.push_back(folder_
                              .Write("h-case.jsonl", R"({"id":"a","tokens":[1],"block":1,"h":")" +
                                                         input + "#H\"}\n")
                              .string());
      } else {
        command.push_back(word);
      }
    }
    return RunDsv4(std::move(command), "hello");
  }
  std::string Output() const { return (folder_ / "output").string(); }

  TinyModel model_;
  TempFolder folder_;
};

TEST_F(InputFilesTest, WhatCannotBeOpenedIsBadInputWithItsReason) {
  folder_.Write("file", "");
  const std::pair<std::string, const char*> inputs[] = {
      {(folder_ / "none").string(), "No such file or directory"},
      {(folder_ / "file/none").string(), "Not a directory"},
  };
  for (const std::vector<std::string>& words : kReaders) {
    for (const auto& [input, reason] : inputs) {
      const ProgramResult result = Run(words, input, Output());
      const std::string what = ::testing::PrintToString(words);
      EXPECT_EQ(result.exit_code, 3) << what;
      EXPECT_THAT(result.err, HasSubstr(input + ": cannot be opened: " + reason)) << what;
      EXPECT_THAT(result.out, IsEmpty()) << what;
      EXPECT_FALSE(std::filesystem::exists(Output())) << what;
    }
  }
}

TEST_F(InputFilesTest, AFolderInPlaceOfAFileIsBadInput) {
  const std::vector<std::string> readers[] = {
      {"synth", "--preset", "tiny-flash", "--out", kOutput, "--tokenizer", kInput},
      {"tokenize", "--tokenizer", kInput},
      {"detokenize", "--tokenizer", kInput},
      {"generate", "--model", kModel, "--input-file", kInput},
      {"trace", "--model", kModel, "--cases", kInput, "--out", kOutput},
  };
  for (const std::vector<std::string>& words : readers) {
    const ProgramResult result = Run(words, "/usr", Output());
    EXPECT_EQ(result.exit_code, 3) << words[0];
    EXPECT_THAT(result.err, HasSubstr("/usr: cannot be opened: Is a directory")) << words[0];
  }
}

TEST_F(InputFilesTest, AFolderWithoutAModelNamesTheFileThatIsMissing) {
  std::filesystem::create_directory(folder_ / "empty");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"generate", "--model", kInput, "--input-file", "-"},
        {"chat", "--model", kInput},
        {"trace", "--model", kInput, "--list-taps"}}) {
    const ProgramResult result = Run(words, (folder_ / "empty").string(), Output());
    EXPECT_EQ(result.exit_code, 3) << words[0];
    EXPECT_THAT(result.err, HasSubstr("/empty/config.json: cannot be opened: No such file"));
  }
  std::filesystem::remove(model_.folder() / "tokenizer.json");
  const ProgramResult result = Run({"chat", "--model", kModel}, "", Output());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("/tokenizer.json: cannot be opened: No such file"));
}

TEST_F(InputFilesTest, WhatCannotBeWrittenIsAFailure) {
  const std::string cases =
      folder_.Write("cases.jsonl", R"({"id":"a","tokens":[1],"logits":"last"})").string();
  folder_.Write("file", "");
  const std::vector<std::string> writers[] = {
      {"synth", "--preset", "tiny-flash", "--set", "vocab_size=16", "--out", kOutput},
      {"convert", "--hf-ckpt-path", kModel, "--save-path", kOutput, "--n-experts", "8",
       "--model-parallel", "1"},
      {"trace", "--model", kModel, "--cases", cases, "--out", kOutput},
  };
  for (const std::vector<std::string>& words : writers) {
    const ProgramResult result = Run(words, "", (folder_ / "file/output").string());
    EXPECT_EQ(result.exit_code, 1) << words[0] << result.err;
    EXPECT_THAT(result.err, HasSubstr("cannot be made: Not a directory")) << words[0];
  }
}

}  // namespace
}  // namespace dsv4::testing
