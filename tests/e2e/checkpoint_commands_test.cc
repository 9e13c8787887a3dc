// dsv4 synth and dsv4 convert as a user runs them.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "checkpoint/safetensors.h"
#include "platform/mmap_file.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_folder.h"
#include "tests/support/terminal.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::ProgramResult;
using testing::RunDsv4;
using testing::TempFolder;

constexpr const char* kTiny = DSV4_TEST_DATA "/model/flash-tiny/checkpoint";

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
      {{"synth", "--preset", "huge", "--out", out},
       "dsv4: --preset: expected flash, pro, tiny-flash, tiny-pro, found huge"},
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

// The same settings in one option, in several, and in any order of the two ways.
TEST(SynthCommand, AnOptionTakesSeveralSettings) {
  const TempFolder folder;
  const std::vector<std::vector<std::string>> ways = {
      {"--set", "vocab_size=16", "num_hidden_layers=1", "n_routed_experts=2"},
      {"--set", "vocab_size=16", "--set", "num_hidden_layers=1", "--set", "n_routed_experts=2"},
      {"--set", "vocab_size=16", "num_hidden_layers=1", "--seed", "1", "--set",
       "n_routed_experts=2"},
  };
  std::set<std::string> hashes;
  for (const std::vector<std::string>& way : ways) {
    const fs::path out = folder / fmt::format("out{}", hashes.size());
    std::vector<std::string> command = {"synth", "--preset", "tiny-flash"};
    command.insert(command.end(), way.begin(), way.end());
    command.insert(command.end(), {"--out", out.string(), "--force"});
    const ProgramResult result = RunDsv4(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    hashes.insert(testing::ReadFileText(out / "config.json") +
                  testing::Sha256Of(Checkpoint::Open(out)->Find("embed.weight")->data));
    EXPECT_THAT(testing::ReadFileText(out / "config.json"), HasSubstr("\"n_routed_experts\": 2,"));
  }
  EXPECT_EQ(hashes.size(), 1u);
}

// Whatever is set: either nothing is written and the message names the key, or the loader takes it.
TEST(SynthCommand, WhatTheLoaderWouldRefuseIsNotWritten) {
  const std::pair<const char*, bool> settings[] = {
      {"head_dim=1", false},
      {"head_dim=192", true},
      {"qk_rope_head_dim=65", false},
      {"hidden_size=320", false},
      {"moe_intermediate_size=96", false},
      {"q_lora_rank=100", false},
      {"o_lora_rank=33", false},
      {"index_head_dim=96", false},
      {"num_hash_layers=9", true},
      {"eos_token_id=64", false},
      {"tie_word_embeddings=true", false},
      {"hidden_act=gelu", false},
      {"scoring_func=tanh", false},
      {"rms_norm_eps=-1", false},
      {"rope_scaling=[]", false},
      {"rope_scaling={}", true},
      {"expert_dtype=fp5", false},
      {"expert_dtype=fp8", true},
      {"quantization_config={}", true},
      {"quantization_config={\"quant_method\":\"fp8\",\"weight_block_size\":[64,64]}", false},
      {"n_shared_experts=2", false},
      {"num_key_value_heads=2", false},
      {"sliding_window=0", false},
      {"max_position_embeddings=\"many\"", false},
      {"routed_scaling_factor=0", false},
      {"hc_mult=2", true},
      {"n_routed_experts=1", false},
  };
  for (const auto& [setting, loads] : settings) {
    const TempFolder folder;
    const std::string out = (folder / "out").string();
    const ProgramResult written =
        RunDsv4({"synth", "--preset", "tiny-flash", "--set", "vocab_size=64", "num_hidden_layers=1",
                 setting, "--out", out});
    if (loads) {
      EXPECT_EQ(written.exit_code, 0) << setting << ": " << written.err;
      const ProgramResult inspected = RunDsv4({"inspect", "--model", out});
      EXPECT_EQ(inspected.exit_code, 0) << setting << ": " << inspected.err;
    } else {
      EXPECT_EQ(written.exit_code, 2) << setting;
      const std::string key(setting, std::strchr(setting, '='));
      EXPECT_THAT(written.err, HasSubstr(key));
      EXPECT_TRUE(fs::is_empty(folder.path())) << setting;
    }
  }
}

TEST(SynthCommand, TooLargeForTheDiskIsExitCodeFour) {
  const TempFolder folder;
  const ProgramResult result = RunDsv4({"synth", "--preset", "pro", "--set", "hidden_size=1048576",
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

TEST(SynthCommand, ATerminalThatGoesAwayUnderTheBarIsAnInterrupt) {
  const TempFolder folder;
  testing::Terminal terminal(
      {DSV4_BINARY, "synth", "--preset", "flash", "--set", "num_hidden_layers=1", "--set",
       "compress_ratios=[0,0]", "--out", (folder / "out").string()},
      {});
  ASSERT_TRUE(terminal.WaitFor("synth "));
  terminal.HangUp();
  EXPECT_EQ(terminal.Wait(), 1);
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

// FP8 is made of FP4 alone: what else the experts are is named, and nothing is written.
TEST(ConvertCommand, ExpertsThatAreNotFp4CannotBecomeFp8) {
  const TempFolder folder;
  for (const auto& [variant, found] :
       {std::pair{"fp8exp-tiny", "found F8_E4M3 [128, 128]; the experts are FP8 already"},
        std::pair{"bf16-tiny", "found BF16 ["}}) {
    const std::string source = std::string(DSV4_TEST_DATA "/model/") + variant + "/checkpoint";
    const std::vector<std::string> command = {"convert",
                                              "--hf-ckpt-path",
                                              source,
                                              "--n-experts",
                                              "4",
                                              "--model-parallel",
                                              "1",
                                              "--save-path",
                                              (folder / "out").string()};
    std::vector<std::string> to_fp8 = command;
    to_fp8.insert(to_fp8.end(), {"--expert-dtype", "fp8"});
    const ProgramResult refused = RunDsv4(to_fp8);
    EXPECT_EQ(refused.exit_code, 3) << variant;
    EXPECT_THAT(refused.err, HasSubstr("tensor layers.0.ffn.experts.0.w1.weight: expected FP4 to "
                                       "make FP8 of, "));
    EXPECT_THAT(refused.err, HasSubstr(found));
    EXPECT_TRUE(fs::is_empty(folder.path()));
    EXPECT_EQ(RunDsv4(command).exit_code, 0) << "as they are";
    fs::remove_all(folder / "out");
  }
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
  // Any part that does not divide is the fault of the same word of the command line.
  for (const char* ranks : {"4", "8", "16"}) {
    const ProgramResult too_many = run({"--model-parallel", ranks});
    EXPECT_EQ(too_many.exit_code, 2) << ranks;
    EXPECT_THAT(too_many.err, HasSubstr(std::string(ranks) + " ranks")) << ranks;
  }
  const ProgramResult experts = run({"--n-experts", "7", "--model-parallel", "1"});
  EXPECT_EQ(experts.exit_code, 2);
  EXPECT_EQ(experts.err, "dsv4: --n-experts 7, but config.json has 8\n");
  EXPECT_FALSE(fs::exists(out));
}

TEST(ConvertCommand, BadCheckpointIsExitCodeThree) {
  const TempFolder folder;
  folder.Write("bad/model.safetensors", "123");
  for (const auto& [path, message] :
       {std::pair{(folder / "bad").string(), "model.safetensors: expected at least 8 bytes"},
        std::pair{(folder / "none").string(), "none: cannot be opened: No such file"},
        std::pair{std::string("org/absent"), "models--org--absent there"}}) {
    const ProgramResult result =
        RunDsv4({"convert", "--hf-ckpt-path", path, "--save-path", (folder / "out").string(),
                 "--n-experts", "8", "--model-parallel", "1"});
    EXPECT_EQ(result.exit_code, 3) << path;
    EXPECT_THAT(result.err, AllOf(HasSubstr("dsv4: "), HasSubstr(message)));
  }
  EXPECT_FALSE(fs::exists(folder / "out"));
}

}  // namespace
}  // namespace dsv4
