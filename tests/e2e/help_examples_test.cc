// Every verb's --help shows an example, and every example works as it stands there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/published_tokenizer.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/tiny_model.h"

namespace dsv4::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::IsSupersetOf;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The verbs that the help of `words` lists.
std::vector<std::string> VerbsOf(const std::string& help) {
  std::vector<std::string> verbs;
  bool listing = false;
  for (const std::string& line : LinesOf(help)) {
    if (listing && !line.starts_with("  ")) break;
    // Deeper lines go on with a description.
    if (listing && line[2] != ' ') verbs.push_back(line.substr(2, line.find(' ', 2) - 2));
    if (line == "Subcommands:") listing = true;
  }
  return verbs;
}

// The shell lines from the one of "Example:" or "Examples:" on.
std::vector<std::string> ExamplesOf(const std::string& help) {
  std::vector<std::string> examples;
  bool begun = false;
  for (std::string line : LinesOf(help)) {
    if (line.starts_with("Example")) {
      begun = true;
      line.erase(0, line.find(':') + 1);
    }
    line.erase(0, line.find_first_not_of(' '));
    if (begun && line.find("dsv4 ") == std::string::npos && !line.starts_with("echo ")) {
      if (!line.empty()) break;
      continue;
    }
    if (begun) examples.push_back(line);
  }
  return examples;
}

class HelpExamplesTest : public ::testing::Test {
 protected:
  // A folder as the examples take for granted.
  void SetUp() override {
    fs::create_directories(folder_ / "models/tokenizer");
    fs::create_directories(folder_ / "tests/golden/model");
    fs::create_directory_symlink(model_.folder().path(), folder_ / "models/demo");
    fs::create_symlink(kPublishedTokenizer, folder_ / "models/tokenizer/tokenizer.json");
    fs::create_directory_symlink(DSV4_TEST_DATA "/model/kernels",
                                 folder_ / "tests/golden/model/kernels");
    folder_.Write("prompts.txt", "Hello\n\nHow are you?\n");
  }
  // The examples of one verb, one after the other. Nothing is typed where one waits for it.
  void ExpectExamplesToWork(const std::vector<std::string>& words, const std::string& help) {
    const std::vector<std::string> examples = ExamplesOf(help);
    EXPECT_FALSE(examples.empty()) << ::testing::PrintToString(words) << '\n' << help;
    const std::string path = fs::path(DSV4_BINARY).parent_path().string();
    for (const std::string& example : examples) {
      const ProgramResult result = RunProgram(
          {"/bin/sh", "-c", "cd \"$1\" && PATH=\"$2:$PATH\" && export PATH && " + example, "sh",
           folder_.path().string(), path});
      EXPECT_EQ(result.exit_code, 0) << example << '\n' << result.err;
    }
  }
  std::vector<std::string> ExpectVerbsToWork(const std::vector<std::string>& words) {
    std::vector<std::string> command = words;
    command.push_back("--help");
    const ProgramResult help = RunDsv4(command);
    EXPECT_EQ(help.exit_code, 0);
    if (!words.empty()) ExpectExamplesToWork(words, help.out);
    const std::vector<std::string> verbs = VerbsOf(help.out);
    for (const std::string& verb : verbs) {
      command = words;
      command.push_back(verb);
      ExpectVerbsToWork(command);
    }
    return verbs;
  }

  TinyModel model_;
  TempFolder folder_;
};

TEST_F(HelpExamplesTest, EveryExampleWorksInAFolderWithTheDemoModel) {
  EXPECT_THAT(ExpectVerbsToWork({}),
              IsSupersetOf({"convert", "synth", "encode", "parse", "tokenize", "detokenize",
                            "inspect", "ops", "trace", "bench", "generate", "chat"}));
}

TEST_F(HelpExamplesTest, BothExamplesOfAVerbAndWhatAnExampleNeedsBeforeAreRun) {
  EXPECT_THAT(ExamplesOf("Example: echo a | dsv4 b\nMore dsv4-like text"),
              ::testing::ElementsAre("echo a | dsv4 b"));
  EXPECT_THAT(ExamplesOf("A case.\nExample:\n  echo x > c\n  dsv4 t"),
              ::testing::ElementsAre("echo x > c", "dsv4 t"));
  EXPECT_THAT(ExamplesOf("Examples: dsv4 a\n          DSV4_KERNELS=ref dsv4 b"),
              ::testing::ElementsAre("dsv4 a", "DSV4_KERNELS=ref dsv4 b"));
}

}  // namespace
}  // namespace dsv4::testing
