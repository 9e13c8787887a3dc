// Checkpoints of several ranks as one whole model, through the door: Checkpoint::Open of a folder.
#include "checkpoint/joined.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>

#include "checkpoint/convert.h"
#include "checkpoint/header.h"
#include "checkpoint/synth.h"
#include "platform/memory_info.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempFolder;

struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<uint8_t> data;
};
using Tensors = std::map<std::string, Tensor>;

// Two ranks of a model with one tensor of each kind; tests change it before it is written.
class Ranks : public ::testing::Test {
 protected:
  Ranks() : ranks_(2) {
    for (uint8_t r = 0; r < 2; ++r) {
      const uint8_t n = static_cast<uint8_t>(16 * r);
      const auto at = [n](uint8_t i) { return static_cast<uint8_t>(n + i); };
      ranks_[r]["norm.weight"] = {DType::kBF16, {1}, {7, 8}};
      ranks_[r]["layers.0.attn.wq_b.weight"] = {
          DType::kU8, {2, 3}, {n, at(1), at(2), at(3), at(4), at(5)}};
      ranks_[r]["layers.0.attn.wo_b.weight"] = {
          DType::kU8, {3, 2}, {n, at(1), at(2), at(3), at(4), at(5)}};
      ranks_[r]["layers.0.attn.wo_b.scale"] = {DType::kF8E8M0, {2, 1}, {at(8), at(9)}};
      ranks_[r]["layers.0.attn.wq_b.scale"] = {DType::kF32, {1, 1}, {n, at(1), at(2), at(3)}};
      ranks_[r]["layers.0.attn.attn_sink"] = {DType::kF32, {1}, {at(4), at(5), at(6), at(7)}};
      ranks_[r][fmt::format("layers.0.ffn.experts.{}.w1.weight", r)] = {DType::kI8, {1, 1}, {n}};
    }
  }

  void Write() const {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      std::vector<TensorToWrite> list;
      for (const auto& [name, tensor] : ranks_[r]) {
        list.push_back({name, tensor.dtype, tensor.shape, std::as_bytes(std::span(tensor.data))});
      }
      const fs::path file = folder_ / fmt::format("model{}-mp{}.safetensors", r, ranks_.size());
      ASSERT_TRUE(WriteSafetensors(file, list));
    }
  }
  Result<Checkpoint> Open(bool join = true) const {
    Write();
    return Checkpoint::Open(folder_.path(), {.join = join});
  }
  std::string ErrorText() const {
    const auto opened = Open();
    return opened ? "opened without an error" : opened.error().message;
  }

  TempFolder folder_;
  std::vector<Tensors> ranks_;
};

std::vector<int> Bytes(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* const tensor = checkpoint.Find(name);
  std::vector<int> bytes;
  if (tensor == nullptr) return bytes;
  for (const std::byte value : tensor->data) bytes.push_back(std::to_integer<int>(value));
  return bytes;
}

TEST_F(Ranks, BecomeOneModel) {
  const auto whole = Open();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->rank(), std::nullopt);
  EXPECT_EQ(whole->converted_world(), 2);
  EXPECT_EQ(whole->files().size(), 2u);
  EXPECT_EQ(whole->file_tensors().size(), 14u);
  ASSERT_EQ(whole->tensors().size(), 8u);
  EXPECT_THAT(Bytes(*whole, "layers.0.attn.wq_b.weight"),
              ElementsAre(0, 1, 2, 3, 4, 5, 16, 17, 18, 19, 20, 21));
  EXPECT_THAT(Bytes(*whole, "layers.0.attn.wo_b.weight"),
              ElementsAre(0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21));
  EXPECT_THAT(Bytes(*whole, "layers.0.attn.wo_b.scale"), ElementsAre(8, 24, 9, 25));
  EXPECT_THAT(Bytes(*whole, "layers.0.attn.wq_b.scale"), ElementsAre(0, 1, 2, 3, 16, 17, 18, 19));
  EXPECT_THAT(Bytes(*whole, "layers.0.attn.attn_sink"), ElementsAre(4, 5, 6, 7, 20, 21, 22, 23));
  EXPECT_THAT(Bytes(*whole, "norm.weight"), ElementsAre(7, 8));
  EXPECT_THAT(Bytes(*whole, "layers.0.ffn.experts.1.w1.weight"), ElementsAre(16));
  EXPECT_EQ(whole->Find("layers.0.attn.wq_b.weight")->TypeText(),
            "U8 [4, 3] (joined from 2 ranks)");
  EXPECT_EQ(whole->Find("layers.0.attn.wo_b.weight")->TypeText(),
            "U8 [3, 4] (joined from 2 ranks)");
  EXPECT_EQ(whole->Find("norm.weight")->TypeText(), "BF16 [1]");
  for (const TensorInfo& tensor : whole->tensors()) {
    if (tensor.num_parts > 1) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data.data()) % 64, 0u) << tensor.name;
    }
  }
}

TEST_F(Ranks, WholeTensorsAndExpertsAreViewsIntoTheFiles) {
  const auto whole = Open();
  ASSERT_TRUE(whole) << whole.error().message;
  for (const char* name :
       {"norm.weight", "layers.0.ffn.experts.0.w1.weight", "layers.0.ffn.experts.1.w1.weight"}) {
    const TensorInfo* const tensor = whole->Find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_TRUE(std::ranges::any_of(whole->file_tensors(), [&](const TensorInfo& in_file) {
      return in_file.name == name && in_file.file == tensor->file &&
             in_file.data.data() == tensor->data.data();
    })) << name;
  }
  EXPECT_EQ(whole->Find("layers.0.ffn.experts.1.w1.weight")->file, 1u);
  // Each of the five divided tensors takes a multiple of 64 bytes.
  EXPECT_EQ(whole->joined_bytes(), 5 * 64u);
}

TEST_F(Ranks, DescribingReadsNothing) {
  const auto described = Open(/*join=*/false);
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(described->joined_bytes(), 5 * 64u);
  EXPECT_EQ(described->Find("layers.0.attn.wq_b.weight")->shape, (std::vector<int64_t>{4, 3}));
  EXPECT_THAT(Bytes(*described, "layers.0.attn.wq_b.weight"), Each(0));
  EXPECT_THAT(Bytes(*described, "norm.weight"), ElementsAre(7, 8));
}

TEST_F(Ranks, OneRankIsJoinedFromNothing) {
  ranks_.resize(1);
  const auto whole = Open();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->converted_world(), 1);
  EXPECT_EQ(whole->joined_bytes(), 0u);
  EXPECT_EQ(&whole->tensors(), &whole->file_tensors());
}

TEST_F(Ranks, TensorOfOtherRanksThatIsMissingIsNamedWithItsFile) {
  ranks_[1].erase("norm.weight");
  ranks_[1].erase("layers.0.attn.wo_b.scale");
  EXPECT_THAT(ErrorText(),
              HasSubstr("model1-mp2.safetensors: 2 tensors that other ranks have are missing: "
                        "layers.0.attn.wo_b.scale, norm.weight"));
  ranks_[0].erase("norm.weight");
  ranks_[0].erase("layers.0.attn.wo_b.scale");
  ranks_[1]["norm.weight"] = {DType::kBF16, {1}, {7, 8}};
  EXPECT_THAT(ErrorText(), HasSubstr("model0-mp2.safetensors: 1 tensors that other ranks have are "
                                     "missing: norm.weight"));
}

TEST_F(Ranks, DisagreementNamesFileTensorExpectedAndFound) {
  const Tensors sound = ranks_[1];
  ranks_[1]["norm.weight"] = {DType::kBF16, {2}, {7, 8, 9, 10}};
  EXPECT_THAT(ErrorText(),
              HasSubstr("model1-mp2.safetensors: tensor norm.weight: expected BF16 [1] "
                        "as in model0-mp2.safetensors, found BF16 [2]"));
  ranks_[1] = sound;
  ranks_[1]["layers.0.attn.wq_b.weight"].dtype = DType::kI8;
  EXPECT_THAT(ErrorText(), HasSubstr("tensor layers.0.attn.wq_b.weight: expected U8 [2, 3] as in "
                                     "model0-mp2.safetensors, found I8 [2, 3]"));
  ranks_[1] = sound;
  ranks_[1]["layers.0.attn.wo_b.weight"] = {DType::kU8, {2, 3}, {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(ErrorText(), HasSubstr("tensor layers.0.attn.wo_b.weight: expected U8 [3, 2] as in "
                                     "model0-mp2.safetensors, found U8 [2, 3]"));
}

TEST_F(Ranks, ExpertInTwoRanksNamesBoth) {
  ranks_[1]["layers.0.ffn.experts.0.w1.weight"] = {DType::kI8, {1, 1}, {0}};
  EXPECT_THAT(ErrorText(), HasSubstr("model1-mp2.safetensors: tensor layers.0.ffn.experts.0.w1."
                                     "weight stands in model0-mp2.safetensors too"));
}

TEST_F(Ranks, AnExpertInAnotherRankThanItsOwnIsNamed) {
  for (Tensors& rank : ranks_) rank["layers.0.ffn.gate.weight"] = {DType::kU8, {2, 1}, {1, 2}};
  EXPECT_TRUE(Open()) << ErrorText();
  std::swap(ranks_[0], ranks_[1]);
  EXPECT_THAT(ErrorText(),
              HasSubstr("model0-mp2.safetensors: tensor layers.0.ffn.experts.1.w1.weight: expected "
                        "experts 0 to 0 in this rank, found expert 1"));
  std::swap(ranks_[0], ranks_[1]);
  for (Tensors& rank : ranks_) rank["layers.0.ffn.gate.weight"] = {DType::kU8, {3, 1}, {1, 2, 3}};
  EXPECT_THAT(ErrorText(), HasSubstr("experts: 3 cannot be divided over 2 ranks"));
}

TEST_F(Ranks, WholeTensorsThatDifferAreOfDifferentModels) {
  ranks_[1]["norm.weight"].data = {7, 9};
  EXPECT_THAT(ErrorText(),
              HasSubstr("model1-mp2.safetensors: tensor norm.weight: expected the bytes that "
                        "model0-mp2.safetensors has, found others"));
  EXPECT_TRUE(Open(/*join=*/false)) << "names, shapes and types are sound";
}

TEST_F(Ranks, WhatCannotBeJoinedIsRefused) {
  const std::vector<Tensors> sound = ranks_;
  const auto error_with = [&](const char* name, const Tensor& tensor) {
    ranks_ = sound;
    for (Tensors& rank : ranks_) rank[name] = tensor;
    return ErrorText();
  };
  EXPECT_THAT(
      error_with("layers.0.attn.wo_b.weight", {DType::kU8, {2}, {1, 2}}),
      HasSubstr("tensor layers.0.attn.wo_b.weight: expected at least 2 axes, found U8 [2]"));
  EXPECT_THAT(error_with("embed.weight", {DType::kU8, {}, {1}}),
              HasSubstr("tensor embed.weight: expected at least 1 axes, found U8 []"));
  EXPECT_THAT(error_with("layers.0.attn.wo_b.weight", {DType::kF4, {2, 3}, {1, 2, 3}}),
              HasSubstr("expected rows of whole bytes, found F4 [2, 3]"));
  EXPECT_THAT(error_with("embed.weight", {DType::kU8, {int64_t{1} << 60, 0}, {}}),
              HasSubstr("tensor embed.weight: U8 [1152921504606846976, 0] times 2 is more than"));
}

TEST_F(Ranks, EmptyTensorsJoin) {
  for (Tensors& rank : ranks_) {
    rank["embed.weight"] = {DType::kBF16, {0, 4}, {}};
    rank["layers.1.attn.wo_b.weight"] = {DType::kBF16, {0, 4}, {}};
    rank["layers.2.attn.wo_b.weight"] = {DType::kBF16, {4, 0}, {}};
  }
  const auto whole = Open();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->Find("layers.1.attn.wo_b.weight")->shape, (std::vector<int64_t>{0, 8}));
  EXPECT_EQ(whole->joined_bytes(), 5 * 64u);
}

TEST_F(Ranks, WhatTheEngineIgnoresMayStandAnywhere) {
  ranks_[1]["mtp.0.emb.tok_emb.weight"] = {DType::kU8, {1}, {1}};
  const auto whole = Open();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->tensors().size(), 8u);
  EXPECT_EQ(whole->file_tensors().size(), 15u);
}

// Files with holes: more divided bytes than this machine has memory for.
TEST(RanksWithoutRoom, AreRefusedBeforeTheyAreRead) {
  const TempFolder folder;
  const int64_t rows = ReadMemoryInfo()->total_bytes / (1 << 20) + 1;
  const std::array<TensorInfo, 1> infos = {
      TensorInfo{"embed.weight", DType::kU8, {rows, 1 << 20}, {}, 0}};
  const std::string header = SafetensorsHeader(infos);
  for (const char* name : {"model0-mp2.safetensors", "model1-mp2.safetensors"}) {
    const fs::path file = folder.Write(name, header);
    fs::resize_file(file, header.size() + static_cast<uint64_t>(rows << 20));
  }
  const auto opened = Checkpoint::Open(folder.path());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::kDoesNotFit);
  EXPECT_THAT(opened.error().message,
              AllOf(HasSubstr(folder.path().string()), HasSubstr("must be joined in memory"),
                    HasSubstr(fmt::format("{} MiB", 2 * rows)), HasSubstr("--model-parallel 1")));
  EXPECT_TRUE(Checkpoint::Open(folder.path(), {.join = false}));
}

// What `convert` divides over 2 and 4 ranks is, joined, what it writes for one: names, types,
// shapes and bytes.
TEST(ConvertedRanks, EqualTheConversionForOneRank) {
  const TempFolder folder;
  const std::vector<SynthSetting> settings = {{"vocab_size", "64"}, {"o_groups", "4"}};
  const auto model = SynthModel::Make("tiny-flash", settings);
  ASSERT_TRUE(model && WriteSynth(*model, {.out = folder / "source"}));
  const auto convert = [&](int world) {
    const fs::path out = folder / fmt::format("mp{}", world);
    const Status status = ConvertCheckpoint(
        {.source = folder / "source", .out = out, .num_experts = 8, .world = world});
    EXPECT_TRUE(status) << status.error().message;
    return Checkpoint::Open(out);
  };
  const auto one = convert(1);
  ASSERT_TRUE(one) << one.error().message;
  for (const int world : {2, 4}) {
    const auto joined = convert(world);
    ASSERT_TRUE(joined) << joined.error().message;
    EXPECT_EQ(joined->tensors().size(), one->tensors().size());
    uint64_t divided = 0;
    for (const TensorInfo& want : one->tensors()) {
      const TensorInfo* const got = joined->Find(want.name);
      ASSERT_NE(got, nullptr) << want.name;
      EXPECT_EQ(got->dtype, want.dtype) << want.name;
      EXPECT_EQ(got->shape, want.shape) << want.name;
      EXPECT_TRUE(std::ranges::equal(got->data, want.data)) << want.name;
      if (got->num_parts > 1) divided += (got->data.size() + 63) / 64 * 64;
    }
    EXPECT_EQ(joined->joined_bytes(), divided);
    EXPECT_GT(divided, 0u);
  }
}

}  // namespace
}  // namespace dsv4
