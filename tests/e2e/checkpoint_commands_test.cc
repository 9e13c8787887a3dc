// dsv4 synth and dsv4 convert as a user runs them.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint/safetensors.h"
#include "platform/mmap_file.h"
#include "tests/support/run_program.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::ProgramResult;
using testing::TempFolder;

constexpr const char* kTiny = DSV4_TEST_DATA "/model/flash-tiny/checkpoint";

ProgramResult RunDsv4(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), DSV4_BINARY);
  return testing::RunProgram(arguments);
}

std::vector<std::string> Names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(SynthCommand, WritesTheCheckpointOfTheSpecification) {
  const TempFolder folder;
  const fs::path tokenizer = folder.Write("t.json", "{}");
  const fs::path out = folder / "out";
  const ProgramResult result =
      RunDsv4({"synth", "--preset", "tiny-flash", "--set", "vocab_size=1024", "--shard-bytes",
               "4000000", "--out", out.string(), "--tokenizer", tokenizer.string()});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(Names(out), ::testing::ElementsAre("config.json", "model-00001-of-00003.safetensors",
                                                 "model-00002-of-00003.safetensors",
                                                 "model-00003-of-00003.safetensors",
                                                 "model.safetensors.index.json", "tokenizer.json"));
  const auto file = MappedFile::Open(out / "model-00003-of-00003.safetensors");
  ASSERT_TRUE(file);
  EXPECT_EQ(testing::Sha256Of(file->bytes()),
            "37b69eda34a31f20618a27983666647d73c0557b506b10f50ec94f4cae1e2566");
}

TEST(SynthCommand, SeedAndSettingsChangeTheFiles) {
  const TempFolder folder;
  const std::vector<std::string> small = {
      "synth",         "--preset", "tiny-flash",          "--set",
      "vocab_size=16", "--set",    "num_hidden_layers=1", "--out"};
  std::vector<std::string> one = small;
  one.push_back((folder / "one").string());
  std::vector<std::string> two = small;
  two.insert(two.end(), {(folder / "two").string(), "--seed", "2"});
  EXPECT_EQ(RunDsv4(one).exit_code, 0);
  EXPECT_EQ(RunDsv4(two).exit_code, 0);
  const auto a = Checkpoint::Open(folder / "one");
  const auto b = Checkpoint::Open(folder / "two");
  ASSERT_TRUE(a && b);
  const auto bytes = [](const Checkpoint& checkpoint) {
    return testing::Sha256Of(checkpoint.Find("embed.weight")->data);
  };
  EXPECT_EQ(a->tensors().size(), b->tensors().size());
  EXPECT_NE(bytes(*a), bytes(*b));
}

TEST(SynthCommand, WrongUseIsExitCodeTwo) {
  const TempFolder folder;
  const std::string out = (folder / "out").string();
  folder.Write("full/thesis.txt", "x");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"synth", "--out", out}, "--preset is required"},
      {{"synth", "--preset", "tiny-flash"}, "--out is required"},
      {{"synth", "--preset", "huge", "--out", out}, "found huge"},
      {{"synth", "--preset", "tiny-pro", "--set", "x", "--out", out},
       "expected key=value, found x"},
      {{"synth", "--preset", "tiny-pro", "--set", "x=1", "--out", out}, "no key x"},
      {{"synth", "--preset", "tiny-pro", "--set", "compress_ratios=[0]", "--out", out},
       "compress_ratios: expected 5 entries"},
      {{"synth", "--preset", "tiny-pro", "--shard-bytes", "0", "--out", out}, "--shard-bytes"},
      {{"synth", "--preset", "tiny-pro", "--out", (folder / "full").string()}, "not empty"},
      {{"synth", "--preset", "tiny-pro", "--force", "--out", (folder / "full").string()},
       "thesis.txt"},
  };
  for (const auto& [arguments, message] : cases) {
    const ProgramResult result = RunDsv4(arguments);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }
  EXPECT_THAT(Names(folder.path()), ::testing::ElementsAre("full"));
}

TEST(SynthCommand, MissingTokenizerIsExitCodeThree) {
  const TempFolder folder;
  const ProgramResult result =
      RunDsv4({"synth", "--preset", "tiny-flash", "--out", (folder / "out").string(), "--tokenizer",
               (folder / "none.json").string()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("none.json: no such tokenizer file"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(SynthCommand, TooLargeForTheDiskIsExitCodeFour) {
  const TempFolder folder;
  const ProgramResult result = RunDsv4({"synth", "--preset", "pro", "--set", "hidden_size=8388608",
                                        "--out", (folder / "out").string()});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err, HasSubstr("bytes are to be written"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// A signal in the middle: an exit code of failure, no temporary and no final folder.
TEST(SynthCommand, InterruptLeavesNothing) {
  const TempFolder folder;
  const std::string out = (folder / "out").string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
    ::execl(DSV4_BINARY, DSV4_BINARY, "synth", "--preset", "flash", "--set", "num_hidden_layers=1",
            "--set", "compress_ratios=[0,0]", "--out", out.c_str(), nullptr);
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (fs::is_empty(folder.path()) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_FALSE(fs::is_empty(folder.path()));
  EXPECT_FALSE(fs::exists(out));
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ConvertCommand, WritesAFileForEachRank) {
  const TempFolder folder;
  const ProgramResult result =
      RunDsv4({"convert", "--hf-ckpt-path", kTiny, "--save-path", (folder / "out").string(),
               "--n-experts", "8", "--model-parallel", "2", "--expert-dtype", "fp8"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out + result.err, "");
  EXPECT_THAT(Names(folder / "out"),
              IsSupersetOf({"model0-mp2.safetensors", "model1-mp2.safetensors", "config.json"}));
  const auto checkpoint = Checkpoint::Open(folder / "out", {.rank = 1});
  ASSERT_TRUE(checkpoint);
  EXPECT_EQ(checkpoint->Find("layers.0.ffn.experts.4.w1.weight")->TypeText(), "F8_E4M3 [128, 256]");
  EXPECT_EQ(checkpoint->Find("layers.0.ffn.experts.3.w1.weight"), nullptr);
}

TEST(ConvertCommand, WrongUseIsExitCodeTwo) {
  const TempFolder folder;
  const std::string out = (folder / "out").string();
  const auto run = [&out](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"convert", "--hf-ckpt-path", kTiny, "--save-path", out});
    return RunDsv4(arguments);
  };
  EXPECT_EQ(run({"--n-experts", "8"}).exit_code, 2);
  EXPECT_EQ(run({"--n-experts", "8", "--model-parallel", "0"}).exit_code, 2);
  EXPECT_EQ(run({"--n-experts", "8", "--model-parallel", "1", "--expert-dtype", "x"}).exit_code, 2);
  const ProgramResult result = run({"--n-experts", "8", "--model-parallel", "3"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("8 experts cannot be divided over 3 ranks"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(ConvertCommand, BadCheckpointIsExitCodeThree) {
  const TempFolder folder;
  folder.Write("bad/model.safetensors", "123");
  for (const auto& [path, message] :
       {std::pair{(folder / "bad").string(), "model.safetensors: expected at least 8 bytes"},
        std::pair{(folder / "none").string(), "none: no such file or folder"},
        std::pair{std::string("org/absent"), "models--org--absent is not there"}}) {
    const ProgramResult result =
        RunDsv4({"convert", "--hf-ckpt-path", path, "--save-path", (folder / "out").string(),
                 "--n-experts", "8", "--model-parallel", "1"});
    EXPECT_EQ(result.exit_code, 3) << path;
    EXPECT_THAT(result.err, AllOf(HasSubstr("dsv4: "), HasSubstr(message)));
  }
  EXPECT_FALSE(fs::exists(folder / "out"));
}

TEST(CheckpointCommands, HelpShowsAnExample) {
  for (const char* const verb : {"synth", "convert"}) {
    const ProgramResult result = RunDsv4({verb, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr(fmt::format("Example: dsv4 {} --", verb)));
  }
}

}  // namespace
}  // namespace dsv4
