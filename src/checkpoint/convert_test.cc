#include "checkpoint/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synth.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFileText;
using testing::TempFolder;

const fs::path kTiny = fs::path(DSV4_TEST_DATA) / "model/flash-tiny";

// The folder's tensors against {FILE: {TENSOR: [dtype, shape, hash]}}: names, order aside, all.
void ExpectListing(const fs::path& folder, const std::string& file, const json::Value& listing) {
  const auto checkpoint = Checkpoint::Open(folder / file);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), listing.members().size());
  for (const auto& [name, expected] : listing.members()) {
    SCOPED_TRACE(name);
    const TensorInfo* const tensor = checkpoint->Find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(fmt::format("{} [{}]", expected.items()[0].as_string(),
                          json::DumpCompact(expected.items()[1])),
              fmt::format("{} [[{}]]", Name(tensor->dtype), fmt::join(tensor->shape, ",")));
    EXPECT_EQ(expected.items()[2].as_string(), testing::Sha256Of(tensor->data).substr(0, 32));
  }
}

TEST(Convert, EqualsTheRecordedListing) {
  const auto listing = json::Parse(ReadFileText(kTiny / "converted.json"));
  ASSERT_TRUE(listing);
  int files = 0;
  for (const bool fp8 : {false, true}) {
    const json::Value& by_file = *listing->Find(fp8 ? "experts_fp8" : "experts_fp4");
    for (const int world : {1, 2}) {
      const TempFolder folder;
      const Status status = ConvertCheckpoint({.source = kTiny / "checkpoint",
                                               .out = folder / "out",
                                               .num_experts = 8,
                                               .world = world,
                                               .fp8_experts = fp8});
      ASSERT_TRUE(status) << status.error().message;
      for (int rank = 0; rank < world; ++rank, ++files) {
        const std::string name = fmt::format("model{}-mp{}.safetensors", rank, world);
        SCOPED_TRACE(fmt::format("{} fp8 {}", name, fp8));
        ASSERT_NE(by_file.Find(name), nullptr);
        ExpectListing(folder / "out", name, *by_file.Find(name));
      }
    }
  }
  EXPECT_EQ(files, 6);
}

// A checkpoint small enough to convert many times.
class SmallConversion : public ::testing::Test {
 protected:
  SmallConversion() {
    const auto model = SynthModel::Make(
        "tiny-flash", std::vector<SynthSetting>{{"vocab_size", "16"}, {"num_hidden_layers", "1"}});
    EXPECT_TRUE(model && WriteSynth(*model, {.out = folder_ / "source"}));
    options_.source = folder_ / "source";
    options_.out = folder_ / "out";
    options_.num_experts = 8;
  }

  std::string ConvertError() {
    const Status status = ConvertCheckpoint(options_);
    EXPECT_FALSE(fs::exists(folder_ / "out"));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "something remains";
    return status ? "converted without an error" : status.error().message;
  }

  // Opens the source's one shard for a change of `bytes` at the tensor's beginning.
  void Patch(std::string_view tensor, std::string_view bytes) {
    const fs::path path = folder_ / "source/model-00001-of-00001.safetensors";
    const auto checkpoint = Checkpoint::Open(path);
    const std::byte* const begin = checkpoint->tensors().front().data.data();
    const auto header = fs::file_size(path) - checkpoint->data_bytes();
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(header) +
               (checkpoint->Find(tensor)->data.data() - begin));
    file << bytes;
  }

  TempFolder folder_;
  ConvertOptions options_;
};

TEST_F(SmallConversion, TheNumberOfExpertsIsThatOfTheConfiguration) {
  options_.num_experts = 0;
  options_.world = 2;
  ASSERT_TRUE(ConvertCheckpoint(options_));
  const auto second = Checkpoint::Open(folder_ / "out/model1-mp2.safetensors");
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->Find("layers.0.ffn.experts.3.w1.weight"), nullptr);
  EXPECT_NE(second->Find("layers.0.ffn.experts.4.w1.weight"), nullptr);
}

TEST_F(SmallConversion, CompanionFilesComeAlong) {
  folder_.Write("source/tokenizer.json", "{\"t\":1}");
  folder_.Write("source/tokenizer_config.json", "{\"c\":1}");
  options_.fp8_experts = true;
  ASSERT_TRUE(ConvertCheckpoint(options_));
  EXPECT_EQ(ReadFileText(folder_ / "out/tokenizer.json"), "{\"t\":1}");
  EXPECT_EQ(ReadFileText(folder_ / "out/tokenizer_config.json"), "{\"c\":1}");
  EXPECT_THAT(ReadFileText(folder_ / "out/config.json"), HasSubstr("\"expert_dtype\": \"fp8\""));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "out"), {}), 4);
  EXPECT_TRUE(Checkpoint::Open(folder_ / "out"));
}

TEST_F(SmallConversion, InexactTileIsRefusedByTensor) {
  // The first group's scale is 2^20 below its neighbours', and its first values are not zero.
  Patch("layers.0.ffn.experts.3.w2.weight", "\x11");
  Patch("layers.0.ffn.experts.3.w2.scale", std::string_view("\x60", 1));
  options_.fp8_experts = true;
  EXPECT_THAT(ConvertError(), AllOf(HasSubstr("tensor layers.0.ffn.experts.3.w2.weight"),
                                    HasSubstr("tile [0, 0]"), HasSubstr("not exact in FP8")));
  options_.fp8_experts = false;
  EXPECT_TRUE(ConvertCheckpoint(options_)) << "staying FP4 needs no exactness";
}

TEST_F(SmallConversion, ExpertCountIsHeldAgainstTheCheckpoint) {
  options_.num_experts = 7;
  EXPECT_EQ(ConvertError(), "--n-experts 7, but config.json has 8");
  fs::remove(folder_ / "source/config.json");
  EXPECT_THAT(ConvertError(), AllOf(HasSubstr("tensor layers.0.ffn.gate.weight"),
                                    HasSubstr("expected 7 experts, found BF16 [8, 256]")));
  options_.num_experts = 0;
  EXPECT_THAT(ConvertError(), HasSubstr("--n-experts is required"));
  options_.num_experts = 8;
  options_.world = 3;
  EXPECT_THAT(ConvertError(), HasSubstr("8 experts cannot be divided over 3 ranks"));
}

TEST_F(SmallConversion, BlockUnderOneScaleIsNotCut) {
  // wo_b has 256 columns: over eight ranks 32, a quarter of a block. The embedding is cut before.
  options_.world = 8;
  EXPECT_THAT(ConvertError(), AllOf(HasSubstr("tensor layers.0.attn."), HasSubstr("8 ranks")));
}

TEST_F(SmallConversion, StoppingLeavesNothing) {
  const std::atomic<bool> stop = true;
  options_.stop = &stop;
  EXPECT_THAT(ConvertError(), HasSubstr("interrupted"));
}

TEST_F(SmallConversion, FullFolderIsKept) {
  folder_.Write("out/config.json", "old");
  const Status status = ConvertCheckpoint(options_);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("not empty"));
  EXPECT_EQ(ReadFileText(folder_ / "out/config.json"), "old");
}

TEST_F(SmallConversion, TheSourceIsNeverReplaced) {
  options_.replace = true;
  fs::create_directory_symlink("source", folder_ / "link");
  fs::create_directory_symlink(".", folder_ / "here");
  for (const char* const out : {"source", "link", "here/source", "source/", "source/mp1",
                                "here/source/a/b", ".", "source/../link/x"}) {
    options_.out = folder_ / out;
    const Status status = ConvertCheckpoint(options_);
    ASSERT_FALSE(status) << out;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(status.error().message, HasSubstr("the source")) << out;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "source"), {}), 3);

  // Its shard is a link to a file of a checkpoint that would be replaced.
  const char* const shard = "model-00001-of-00001.safetensors";
  folder_.Write("out/config.json", "{}");
  fs::rename(folder_ / "source" / shard, folder_ / "out" / shard);
  fs::create_symlink(folder_ / "out" / shard, folder_ / "source" / shard);
  options_.out = folder_ / "out";
  const Status status = ConvertCheckpoint(options_);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("without the source"), HasSubstr(shard)));
  EXPECT_TRUE(fs::exists(folder_ / "out" / shard));
}

TEST_F(SmallConversion, ConvertedCheckpointIsNotDividedAgain) {
  options_.world = 2;
  ASSERT_TRUE(ConvertCheckpoint(options_));
  options_.source = folder_ / "out";
  options_.out = folder_ / "again";
  const Status status = ConvertCheckpoint(options_);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("converted for 2 ranks already"));
}

TEST_F(SmallConversion, OlderNamesBecomeCanonical) {
  const std::vector<std::byte> data(16);
  const std::array<TensorToWrite, 2> tensors = {
      TensorToWrite{"model.embed_tokens.weight", DType::kBF16, {4, 2}, data},
      TensorToWrite{"model.layers.0.self_attn.kv_a_layernorm.weight", DType::kBF16, {8}, data}};
  ASSERT_TRUE(WriteSafetensors(folder_ / "older.safetensors", tensors));
  options_.source = folder_ / "older.safetensors";
  options_.world = 2;
  const Status status = ConvertCheckpoint(options_);
  ASSERT_TRUE(status) << status.error().message;
  const auto converted = Checkpoint::Open(folder_ / "out", {.rank = 1});
  ASSERT_TRUE(converted);
  EXPECT_EQ(converted->Find("embed.weight")->TypeText(), "BF16 [2, 2]");
  EXPECT_EQ(converted->Find("layers.0.attn.kv_norm.weight")->TypeText(), "BF16 [8]");
}

}  // namespace
}  // namespace dsv4
