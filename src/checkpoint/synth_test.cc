#include "checkpoint/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/safetensors.h"
#include "platform/mmap_file.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFileText;
using testing::Sha256Of;
using testing::TempFolder;

const std::vector<SynthSetting> kSmallVocabulary = {{"vocab_size", "1024"}};

SynthModel Model(std::string_view preset, const std::vector<SynthSetting>& settings = {}) {
  auto model = SynthModel::Make(preset, settings);
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

std::string HashOfFile(const fs::path& path) {
  const auto file = MappedFile::Open(path);
  return file ? Sha256Of(file->bytes()) : file.error().message;
}

size_t CountEntries(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

struct WholeCheckpoint {
  const char* preset;
  std::vector<SynthSetting> settings;
  const char* config;
  const char* index;
  const char* shard;
};

TEST(Synth, WholeCheckpointsHaveTheHashesOfTheSpecification) {
  const WholeCheckpoint checkpoints[] = {
      {"tiny-flash", kSmallVocabulary,
       "6447460182e0c7ff0b0f1227927f8293e6240a4adb2097a81a4c42706cd3d159",
       "06400a7932fe786712a34e80b895206181374887d8a195fb1a18431758323f3d",
       "b3befeab06ce34c946b39a9f656e44c087af2653fa2bb932284d267ef4fe2d5b"},
      {"tiny-pro", kSmallVocabulary,
       "c874db2183f5280c6115f1e7bff287947d37f48c4e803695a154c959b38ac165",
       "00c13dc340f6194f5d0b9854672f3bded99eb01ebb0a94f708d7d7d28cce9ba4",
       "68a6b08cca3d18e9a5bcdeb104eaa41f14e6f612ba8fe91227c3a2ba379482e6"},
      {"tiny-flash",
       {},
       "baa59dd4eb3f0861cde56770ad77970ce4712898f907a425489575e895c598ae",
       "e706f73ce8a48fccf9972669b5c41f31f886d770e9acfb075290ce934b4b6b5d",
       "dff2150935d017d6425381f3faa7761a27e009accf419ac168a79f8123f15d69"},
  };
  for (const WholeCheckpoint& expected : checkpoints) {
    SCOPED_TRACE(expected.preset);
    const TempFolder folder;
    const Status status =
        WriteSynth(Model(expected.preset, expected.settings), {.out = folder / "model"});
    ASSERT_TRUE(status) << status.error().message;
    EXPECT_EQ(HashOfFile(folder / "model/config.json"), expected.config);
    EXPECT_EQ(HashOfFile(folder / "model/model.safetensors.index.json"), expected.index);
    EXPECT_EQ(HashOfFile(folder / "model/model-00001-of-00001.safetensors"), expected.shard);
    EXPECT_EQ(CountEntries(folder / "model"), 3u);
    EXPECT_EQ(CountEntries(folder.path()), 1u) << "a temporary remains";
    EXPECT_TRUE(Checkpoint::Open(folder / "model"));
  }
}

TEST(Synth, ShardsHaveTheHashesOfTheSpecification) {
  const TempFolder folder;
  const Status status = WriteSynth(Model("tiny-flash", kSmallVocabulary),
                                   {.out = folder / "model", .shard_bytes = 4000000});
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(HashOfFile(folder / "model/model-00001-of-00003.safetensors"),
            "b224ff1ebe2b4c0320b6e1020ebc37ae65bf821a5f8d13e93c4994df93cf6d72");
  EXPECT_EQ(HashOfFile(folder / "model/model-00002-of-00003.safetensors"),
            "ecbf853ba6fcd62bcc9a1b7ed2dd2d622010c736bd3303e8c6e3ccf89c0b09bb");
  EXPECT_EQ(HashOfFile(folder / "model/model-00003-of-00003.safetensors"),
            "37b69eda34a31f20618a27983666647d73c0557b506b10f50ec94f4cae1e2566");
  EXPECT_EQ(HashOfFile(folder / "model/model.safetensors.index.json"),
            "b04c030d53a75b49db67f684b8ff0acfc47aa9c54696a249ceb5772e4f275a3d");
  const auto checkpoint = Checkpoint::Open(folder / "model");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 504u);
}

TEST(Synth, PresetsHaveTheSizesOfTheSpecification) {
  struct Size {
    const char* preset;
    size_t tensors;
    uint64_t bytes;
  };
  for (const auto& [preset, tensors, bytes] :
       {Size{"flash", 69187, 159609485896}, Size{"pro", 145116, 864704792696},
        Size{"tiny-flash", 504, 143968172}, Size{"tiny-pro", 544, 149789584}}) {
    const SynthModel model = Model(preset);
    EXPECT_EQ(model.tensors().size(), tensors) << preset;
    EXPECT_EQ(model.data_bytes(), bytes) << preset;
  }
  EXPECT_EQ(Sha256Of(Model("flash").config_json()),
            "696758cd178c37200f339b19d85ff818ecf930c8e3eb2022ae91e281a81a7235");
  EXPECT_EQ(Sha256Of(Model("pro").config_json()),
            "958c243d7422eb4ec6c927f6c911ba7c9192e0cdd16141bf04c2b3c45501f6e0");
}

TEST(Synth, SettingsReplaceTheTextOfAnyKey) {
  const SynthModel model = Model("tiny-flash", {{"hidden_act", "gelu"},
                                                {"swiglu_limit", "1e1"},
                                                {"rope_scaling", "{\"a\": [1]}"},
                                                {"num_hidden_layers", "4"},
                                                {"num_hidden_layers", "3"}});
  EXPECT_THAT(model.config_json(), AllOf(HasSubstr("\n  \"hidden_act\": \"gelu\",\n"),
                                         HasSubstr("\n  \"swiglu_limit\": 1e1,\n"),
                                         HasSubstr("\n  \"rope_scaling\": {\"a\": [1]},\n"),
                                         HasSubstr("\n  \"num_hidden_layers\": 3,\n"),
                                         HasSubstr("\n  \"compress_ratios\": [0,0,4,0]\n}\n")));
}

TEST(Synth, FormatsFollowTheConfiguration) {
  const auto types = [](const SynthModel& model, std::string_view name) {
    std::string text;
    for (const SynthTensor& tensor : model.tensors()) {
      if (tensor.name.starts_with(name)) text += fmt::format("{} ", Name(tensor.dtype));
    }
    return text;
  };
  const SynthModel fp8 = Model("tiny-flash", {{"expert_dtype", "fp8"}});
  EXPECT_EQ(types(fp8, "layers.0.ffn.experts.0.w1."), "F8_E4M3 F8_E8M0 ");
  EXPECT_THAT(fp8.config_json(), HasSubstr("\"expert_dtype\": \"fp8\""));
  for (const char* const none : {"null", "{}"}) {
    const SynthModel bf16 = Model("tiny-flash", {{"quantization_config", none}});
    EXPECT_EQ(types(bf16, "layers.0.ffn.experts.0.w1."), "BF16 ");
    EXPECT_EQ(types(bf16, "layers.0.attn.wq_a."), "BF16 ");
  }
  EXPECT_EQ(types(Model("tiny-flash"), "layers.0.ffn.experts.0.w1."), "I8 F8_E8M0 ");
}

TEST(Synth, FewerLayersShareTheirTensors) {
  const SynthModel whole = Model("tiny-flash");
  const SynthModel part = Model("tiny-flash", {{"num_hidden_layers", "2"}});
  for (size_t i = 0; i < 20; ++i) {
    std::vector<std::byte> a(std::min<size_t>(whole.tensors()[i].num_bytes(), 4096));
    std::vector<std::byte> b(a.size());
    ASSERT_EQ(whole.tensors()[i].name, part.tensors()[i].name);
    FillSynthTensor(whole.tensors()[i], 7, 0, a);
    FillSynthTensor(part.tensors()[i], 7, 0, b);
    EXPECT_EQ(a, b) << whole.tensors()[i].name;
  }
}

struct BadSetting {
  SynthSetting setting;
  std::vector<std::string> message;
};

TEST(Synth, BadSettingsAreUsageErrorsByKey) {
  const BadSetting bad[] = {
      {{"hidden_sise", "1"}, {"--set hidden_sise=1", "no key hidden_sise"}},
      {{"compress_ratios", "[0,0]"}, {"compress_ratios", "6 entries", "found 2"}},
      {{"compress_ratios", "[0,0,4,8,4,0]"}, {"compress_ratios", "0, 4 and 128", "[0,0,4,8,4,0]"}},
      {{"compress_ratios", ""}, {"compress_ratios", "a list"}},
      {{"hidden_size", "0"}, {"hidden_size", "found 0"}},
      {{"hidden_size", "256.0"}, {"hidden_size", "found 256.0"}},
      {{"hidden_size", "big"}, {"hidden_size", "found \"big\""}},
      {{"hidden_size", "200"}, {"hidden_size", "multiple of 32", "found 200"}},
      {{"moe_intermediate_size", "100"}, {"moe_intermediate_size", "found 100"}},
      {{"o_groups", "3"}, {"o_groups", "3 does not divide", "512"}},
      {{"num_experts_per_tok", "9"}, {"num_experts_per_tok", "9 is above n_routed_experts 8"}},
      {{"num_hidden_layers", "-1"}, {"num_hidden_layers", "found -1"}},
  };
  for (const auto& [setting, message] : bad) {
    SCOPED_TRACE(setting.first + "=" + setting.second);
    const auto model = SynthModel::Make("tiny-flash", std::vector{setting});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().kind, ErrorKind::kUsage);
    for (const std::string& part : message) EXPECT_THAT(model.error().message, HasSubstr(part));
  }
  const auto model = SynthModel::Make("huge", {});
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("flash, pro, tiny-flash, tiny-pro, found huge"));
}

// Small enough to write many times.
SynthModel Small() {
  return Model("tiny-flash", {{"vocab_size", "16"}, {"num_hidden_layers", "1"}});
}

TEST(Synth, FullFolderIsKeptUnlessReplaced) {
  const TempFolder folder;
  folder.Write("model/config.json", "old");
  folder.Write("model/old.safetensors", "old");
  const Status refused = WriteSynth(Small(), {.out = folder / "model"});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("not empty"), HasSubstr("--force")));
  EXPECT_EQ(ReadFileText(folder / "model/config.json"), "old");
  EXPECT_TRUE(WriteSynth(Small(), {.out = folder / "model/", .replace = true}));
  EXPECT_EQ(ReadFileText(folder / "model/config.json"), Small().config_json());
  EXPECT_EQ(CountEntries(folder.path()), 1u);
  folder.Write("model/thesis.txt", "years of work");
  const Status kept = WriteSynth(Small(), {.out = folder / "model", .replace = true});
  ASSERT_FALSE(kept);
  EXPECT_THAT(kept.error().message, HasSubstr("thesis.txt, which is no checkpoint file"));
  EXPECT_EQ(ReadFileText(folder / "model/thesis.txt"), "years of work");
}

TEST(Synth, EmptyFolderIsFilledAndParentsAreMade) {
  const TempFolder folder;
  fs::create_directory(folder / "model");
  EXPECT_TRUE(WriteSynth(Small(), {.out = folder / "model"}));
  EXPECT_TRUE(WriteSynth(Small(), {.out = folder / "a/b/c"}));
  EXPECT_TRUE(Checkpoint::Open(folder / "a/b/c"));
}

TEST(Synth, StoppingLeavesNothing) {
  const TempFolder folder;
  const std::atomic<bool> stop = true;
  const Status status = WriteSynth(Small(), {.out = folder / "model", .stop = &stop});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "interrupted");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Synth, TooLargeForTheDiskIsSaidBeforeWriting) {
  const TempFolder folder;
  const SynthModel petabytes =
      Model("pro", {{"vocab_size", "16777216"}, {"hidden_size", "16777216"}});
  const Status status = WriteSynth(petabytes, {.out = folder / "model"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kDoesNotFit);
  EXPECT_THAT(status.error().message, HasSubstr("are free"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Synth, TokenizerIsCopiedAndMustExist) {
  const TempFolder folder;
  const fs::path tokenizer = folder.Write("t.json", "{\"a\":1}");
  EXPECT_TRUE(WriteSynth(Small(), {.out = folder / "model", .tokenizer = tokenizer}));
  EXPECT_EQ(ReadFileText(folder / "model/tokenizer.json"), "{\"a\":1}");
  const Status status =
      WriteSynth(Small(), {.out = folder / "other", .tokenizer = folder / "none"});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kBadInput);
  EXPECT_FALSE(fs::exists(folder / "other"));
}

class Recorder : public Progress {
 public:
  void Start(std::string_view what, uint64_t all) override { name = what, total = all; }
  void Update(uint64_t value) override {
    EXPECT_GE(value, done);
    done = value;
  }
  void Finish() override { ++finished; }

  std::string name;
  uint64_t total = 0;
  uint64_t done = 0;
  int finished = 0;
};

TEST(Synth, ProgressCountsEveryByte) {
  const TempFolder folder;
  Recorder progress;
  ASSERT_TRUE(WriteSynth(Small(), {.out = folder / "model", .shard_bytes = 100000}, progress));
  EXPECT_EQ(progress.name, "synth");
  EXPECT_EQ(progress.total, Small().data_bytes());
  EXPECT_EQ(progress.done, progress.total);
  EXPECT_EQ(progress.finished, 1);
}

}  // namespace
}  // namespace dsv4
