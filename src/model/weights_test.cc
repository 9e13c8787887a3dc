#include "model/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "tests/support/temp_folder.h"

namespace dsv4::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::filesystem::path GoldenCheckpoint(const std::string& variant) {
  return std::filesystem::path(DSV4_TEST_DATA) / "model" / variant / "checkpoint";
}

struct Golden {
  const char* variant;
  WeightFormat linear;
  WeightFormat expert;
};

class GoldenWeights : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenWeights, BindWithNothingLeftOver) {
  const std::filesystem::path folder = GoldenCheckpoint(GetParam().variant);
  const Result<ModelConfig> config = LoadConfig(folder);
  ASSERT_TRUE(config) << config.error().message;
  const Result<ModelWeights> weights = LoadWeights(*config, folder);
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_THAT(weights->unused, IsEmpty());
  EXPECT_EQ(weights->blocks.size(), static_cast<size_t>(config->num_blocks()));
  EXPECT_EQ(weights->mtp.size(), static_cast<size_t>(config->num_mtp_layers));
  for (int32_t i = 0; i < config->num_blocks(); ++i) {
    const BlockWeights& block = weights->blocks[static_cast<size_t>(i)];
    EXPECT_EQ(block.attn.wq_a.format, GetParam().linear);
    EXPECT_EQ(block.ffn.experts.front().w2.format, GetParam().expert);
    EXPECT_EQ(block.ffn.experts.size(), static_cast<size_t>(config->num_routed_experts));
    EXPECT_EQ(block.attn.compressor.wkv.data != nullptr, block.attn.ratio != 0);
    EXPECT_EQ(block.attn.indexer.wq_b.data != nullptr, block.attn.ratio == 4);
    EXPECT_EQ(block.ffn.tid2eid.empty(), i >= config->num_hash_layers);
    EXPECT_EQ(block.ffn.bias.empty(), i < config->num_hash_layers);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.attn_norm.data()) % 64, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllVariants, GoldenWeights,
    ::testing::Values(Golden{"flash-tiny", WeightFormat::kFp8, WeightFormat::kFp4},
                      Golden{"pro-tiny", WeightFormat::kFp8, WeightFormat::kFp4},
                      Golden{"bf16-tiny", WeightFormat::kBf16, WeightFormat::kBf16},
                      Golden{"fp8exp-tiny", WeightFormat::kFp8, WeightFormat::kFp8},
                      Golden{"one-window", WeightFormat::kFp8, WeightFormat::kFp4},
                      Golden{"one-csa", WeightFormat::kFp8, WeightFormat::kFp4},
                      Golden{"one-hca", WeightFormat::kFp8, WeightFormat::kFp4}),
    [](const auto& test) {
      std::string name = test.param.variant;
      std::ranges::replace(name, '-', '_');
      return name;
    });

// A checkpoint whose tensors a test may change before it is written and bound.
class Faulty {
 public:
  struct Tensor {
    DType dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> data;
  };

  explicit Faulty(const std::string& variant)
      : config_(LoadConfig(GoldenCheckpoint(variant)).value()) {
    const Checkpoint checkpoint = Checkpoint::Open(GoldenCheckpoint(variant)).value();
    for (const TensorInfo& info : checkpoint.tensors()) {
      tensors_[info.name] = {info.dtype, info.shape, {info.data.begin(), info.data.end()}};
    }
  }

  ModelConfig& config() { return config_; }
  std::map<std::string, Tensor>& tensors() { return tensors_; }
  Tensor& operator[](const std::string& name) { return tensors_.at(name); }
  void Rename(const std::string& from, const std::string& to) {
    auto node = tensors_.extract(from);
    node.key() = to;
    tensors_.insert(std::move(node));
  }
  void Replace(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    const auto bytes = static_cast<size_t>(elements * BitsPerElement(dtype) / 8);
    tensors_[name] = {dtype, std::move(shape), std::vector<std::byte>(bytes)};
  }

  const std::filesystem::path& folder() const { return folder_.path(); }

  Result<ModelWeights> Bind(const std::string& file = "model.safetensors") {
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors_) {
      list.push_back({name, tensor.dtype, tensor.shape, tensor.data});
    }
    DSV4_TRY(WriteSafetensors(folder_ / file, list));
    return LoadWeights(config_, folder_.path());
  }

 private:
  testing::TempFolder folder_;
  ModelConfig config_;
  std::map<std::string, Tensor> tensors_;
};

std::string ErrorOf(const Result<ModelWeights>& result) {
  return result ? "no error" : result.error().message;
}

TEST(Weights, OneMissingTensorIsNamed) {
  Faulty faulty("one-csa");
  faulty.tensors().erase("layers.0.attn.indexer.weights_proj.weight");
  EXPECT_THAT(ErrorOf(faulty.Bind()),
              HasSubstr("1 tensors that the configuration demands are missing: "
                        "layers.0.attn.indexer.weights_proj.weight"));
}

TEST(Weights, ManyMissingTensorsAreNamedAndCounted) {
  Faulty faulty("one-window");
  std::erase_if(faulty.tensors(),
                [](const auto& item) { return item.first.find(".experts.") != std::string::npos; });
  EXPECT_THAT(ErrorOf(faulty.Bind()),
              AllOf(HasSubstr("36 tensors"), HasSubstr("layers.0.ffn.experts.0.w1.weight, "),
                    HasSubstr(" and 26 more")));
}

TEST(Weights, MissingScaleIsNamed) {
  Faulty faulty("one-window");
  faulty.tensors().erase("layers.0.attn.wo_b.scale");
  EXPECT_THAT(ErrorOf(faulty.Bind()), HasSubstr("missing: layers.0.attn.wo_b.scale"));
}

struct Fault {
  const char* tensor;
  DType dtype;
  std::vector<int64_t> shape;
  const char* message;
};

TEST(Weights, WrongShapeOrTypeNamesFileTensorExpectedAndFound) {
  const Fault faults[] = {
      {"embed.weight", DType::kBF16, {511, 256}, "expected BF16 [512, 256], found BF16 [511, 256]"},
      {"head.weight", DType::kI8, {512, 256}, "expected BF16 [512, 256], found I8 [512, 256]"},
      {"norm.weight", DType::kBF16, {128}, "expected BF16 [256], found BF16 [128]"},
      {"hc_head_fn", DType::kBF16, {4, 1024}, "expected F32 [4, 1024], found BF16 [4, 1024]"},
      {"hc_head_scale", DType::kF32, {3}, "expected F32 [1], found F32 [3]"},
      {"layers.0.hc_attn_base", DType::kF32, {4}, "expected F32 [24], found F32 [4]"},
      {"layers.0.attn.wq_a.weight",
       DType::kBF16,
       {128, 256},
       "expected fp8 as the configuration says, for a matrix [128, 256], found BF16 [128, 256]"},
      {"layers.0.attn.wq_a.weight",
       DType::kF8E4M3,
       {256, 128},
       "expected F8_E4M3 [128, 256], found F8_E4M3 [256, 128]"},
      {"layers.0.attn.wq_a.scale",
       DType::kF8E8M0,
       {2, 2},
       "expected F8_E8M0 [1, 2], found F8_E8M0 [2, 2]"},
      {"layers.0.attn.wq_a.scale", DType::kU8, {1, 2}, "expected F8_E8M0 [1, 2], found U8 [1, 2]"},
      {"layers.0.attn.attn_sink", DType::kF32, {5}, "expected F32 [4], found F32 [5]"},
      {"layers.0.attn.compressor.ape",
       DType::kF32,
       {128, 1024},
       "expected F32 [4, 1024], found F32 [128, 1024]"},
      {"layers.0.attn.compressor.wkv.weight",
       DType::kBF16,
       {512, 256},
       "expected BF16 [1024, 256], found BF16 [512, 256]"},
      {"layers.0.ffn.gate.weight",
       DType::kBF16,
       {8, 256},
       "expected BF16 [6, 256], found BF16 [8, 256]"},
      {"layers.0.ffn.gate.bias", DType::kI64, {6}, "expected F32 [6], found I64 [6]"},
      {"layers.0.ffn.experts.3.w2.weight",
       DType::kI8,
       {256, 128},
       "expected I8 [256, 64], found I8 [256, 128]"},
      {"layers.0.ffn.experts.3.w2.weight",
       DType::kF8E4M3,
       {256, 128},
       "expected fp4 as the configuration says, for a matrix [256, 128], found F8_E4M3 [256, 128]"},
      {"layers.0.ffn.experts.3.w2.scale",
       DType::kF8E8M0,
       {2, 1},
       "expected F8_E8M0 [256, 4], found F8_E8M0 [2, 1]"},
  };
  for (const Fault& fault : faults) {
    Faulty faulty("one-csa");
    faulty.Replace(fault.tensor, fault.dtype, fault.shape);
    EXPECT_THAT(ErrorOf(faulty.Bind()),
                AllOf(HasSubstr("model.safetensors: tensor " + std::string(fault.tensor) + ": "),
                      HasSubstr(fault.message)));
  }
}

TEST(Weights, ExpertNumberOutOfRangeNamesTokenSlotAndRange) {
  for (const int64_t wrong : {int64_t{4}, int64_t{-1}}) {
    Faulty faulty("fp8exp-tiny");
    auto& table = faulty["layers.0.ffn.gate.tid2eid"];
    std::memcpy(table.data.data() + 8 * (2 * 77 + 1), &wrong, 8);
    EXPECT_THAT(ErrorOf(faulty.Bind()),
                HasSubstr("layers.0.ffn.gate.tid2eid: expected experts from 0 to 3, found " +
                          std::to_string(wrong) + " for token 77, slot 1"));
  }
}

TEST(Weights, NarrowExpertTableBecomesTheSameNumbers) {
  Faulty faulty("fp8exp-tiny");
  auto& table = faulty["layers.0.ffn.gate.tid2eid"];
  std::vector<int64_t> wide(table.data.size() / 8);
  std::memcpy(wide.data(), table.data.data(), table.data.size());
  const std::vector<int32_t> narrow(wide.begin(), wide.end());
  faulty.Replace("layers.0.ffn.gate.tid2eid", DType::kI32, {512, 2});
  std::memcpy(table.data.data(), narrow.data(), table.data.size());
  const Result<ModelWeights> weights = faulty.Bind();
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_TRUE(std::ranges::equal(weights->blocks[0].ffn.tid2eid, wide));
}

TEST(Weights, LeftOversAreListedAndSharedCopiesAreNot) {
  Faulty faulty("one-window");
  faulty.Replace("layers.0.attn.indexer.wq_b.weight", DType::kF8E4M3, {4, 4});
  faulty.Replace("mtp.0.emb.tok_emb.weight", DType::kBF16, {1, 1});
  faulty.Replace("mtp.0.head.weight", DType::kBF16, {1, 1});
  faulty.Replace("zebra", DType::kU8, {1});
  const Result<ModelWeights> weights = faulty.Bind();
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_THAT(weights->unused, ElementsAre("layers.0.attn.indexer.wq_b.weight", "zebra"));
}

TEST(Weights, OtherSpellingsOfNamesBind) {
  Faulty faulty("one-window");
  faulty.Rename("layers.0.attn.wq_a.weight", "model.layers.0.self_attn.q_a_proj.weight");
  faulty.Rename("layers.0.attn.wq_a.scale", "model.layers.0.self_attn.q_a_proj.weight_scale_inv");
  faulty.Rename("layers.0.ffn.gate.bias", "layers.0.mlp.gate.e_score_correction_bias");
  const Result<ModelWeights> weights = faulty.Bind();
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_THAT(weights->unused, IsEmpty());
}

TEST(Weights, TwoNamesForOneTensorAreRefused) {
  Faulty faulty("one-window");
  faulty.Replace("model.norm.weight", DType::kBF16, {256});
  EXPECT_THAT(ErrorOf(faulty.Bind()),
              AllOf(HasSubstr("model.norm.weight"), HasSubstr("norm.weight")));
}

TEST(Weights, WideNormBindsOnlyWhereBf16HoldsIt) {
  Faulty faulty("one-window");
  auto& norm = faulty["norm.weight"];
  const std::vector<std::byte> narrow = norm.data;
  std::vector<float> wide(256);
  for (size_t i = 0; i < wide.size(); ++i) {
    Bf16 value;
    std::memcpy(&value, narrow.data() + 2 * i, 2);
    wide[i] = ToFloat(value);
  }
  faulty.Replace("norm.weight", DType::kF32, {256});
  std::memcpy(norm.data.data(), wide.data(), norm.data.size());
  const Result<ModelWeights> weights = faulty.Bind();
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(std::memcmp(weights->norm.data(), narrow.data(), narrow.size()), 0);

  wide[9] = 1.0001f;
  std::memcpy(norm.data.data(), wide.data(), norm.data.size());
  EXPECT_THAT(
      ErrorOf(faulty.Bind()),
      HasSubstr("norm.weight: expected values that bf16 holds exactly (element 9 is 1.0001), "
                "found F32 [256]"));
}

TEST(Weights, FloatScalesAndLogicalFp4ShapesBind) {
  Faulty faulty("one-window");
  faulty.Replace("layers.0.attn.wq_a.scale", DType::kF32, {1, 2});
  auto& expert = faulty["layers.0.ffn.experts.0.w1.weight"];
  expert.dtype = DType::kF4;
  expert.shape[1] *= 2;
  const Result<ModelWeights> weights = faulty.Bind();
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(weights->blocks[0].attn.wq_a.scale_format, ScaleFormat::kF32);
  EXPECT_EQ(weights->blocks[0].ffn.experts[0].w1.format, WeightFormat::kFp4);
}

TEST(Weights, ConvertedCheckpointOfOneRankBinds) {
  Faulty faulty("one-window");
  faulty.tensors().erase("layers.0.attn.wo_a.scale");
  faulty.Replace("layers.0.attn.wo_a.weight", DType::kBF16, {256, 256});
  faulty.Replace("layers.0.ffn.experts.3.w1.weight", DType::kF8E4M3, {128, 256});
  faulty.Replace("layers.0.ffn.experts.3.w1.scale", DType::kF8E8M0, {1, 2});
  const Result<ModelWeights> weights = faulty.Bind("model0-mp1.safetensors");
  ASSERT_TRUE(weights) << weights.error().message;
  EXPECT_EQ(weights->blocks[0].attn.wo_a.format, WeightFormat::kBf16);
  EXPECT_EQ(weights->blocks[0].ffn.experts[3].w1.format, WeightFormat::kFp8);
}

TEST(Weights, OneRankOfSeveralIsRefused) {
  Faulty faulty("one-window");
  EXPECT_THAT(ErrorOf(faulty.Bind("model1-mp2.safetensors")),
              HasSubstr("1 of 2 shards missing: model0-mp2.safetensors"));
  EXPECT_THAT(ErrorOf(LoadWeights(faulty.config(), faulty.folder() / "model1-mp2.safetensors")),
              AllOf(HasSubstr("model1-mp2.safetensors: expected a whole model"),
                    HasSubstr("found rank 1 of a checkpoint converted for 2 ranks"),
                    HasSubstr("give the folder")));
}

// A conversion for two ranks whose tensors a test may change before it is bound.
class FaultyRanks : public ::testing::Test {
 protected:
  using Change = std::function<void(std::map<std::string, TensorToWrite>&)>;

  std::string ErrorWith(const Change& change) {
    const testing::TempFolder folder;
    const std::filesystem::path source = GoldenCheckpoint("one-window");
    const Status converted = ConvertCheckpoint(
        {.source = source, .out = folder / "whole", .num_experts = 6, .world = 2});
    EXPECT_TRUE(converted) << converted.error().message;
    for (const int rank : {0, 1}) {
      const Checkpoint file = Checkpoint::Open(folder / "whole", {.rank = rank}).value();
      std::map<std::string, TensorToWrite> tensors;
      for (const TensorInfo& info : file.tensors()) {
        tensors[info.name] = {info.name, info.dtype, info.shape, info.data};
      }
      change(tensors);
      std::vector<TensorToWrite> list;
      for (const auto& [name, tensor] : tensors) list.push_back(tensor);
      EXPECT_TRUE(WriteSafetensors(folder / fmt::format("model{}-mp2.safetensors", rank), list));
    }
    return ErrorOf(LoadWeights(LoadConfig(source).value(), folder.path()));
  }
};

TEST_F(FaultyRanks, WithoutFaultBind) {
  EXPECT_EQ(ErrorWith([](auto&) {}), "no error");
}

TEST_F(FaultyRanks, PartsThatDoNotAddUpNameExpectedAndFound) {
  EXPECT_THAT(ErrorWith([](auto& tensors) {
                TensorToWrite& embed = tensors.at("embed.weight");
                embed.shape[0] -= 1;
                embed.data = embed.data.first(embed.data.size() - 2 * 256);
              }),
              HasSubstr("model0-mp2.safetensors: tensor embed.weight: expected BF16 [512, 256], "
                        "found BF16 [510, 256] (joined from 2 ranks)"));
  EXPECT_THAT(ErrorWith([](auto& tensors) {
                TensorToWrite& wo_b = tensors.at("layers.0.attn.wo_b.weight");
                std::swap(wo_b.shape[0], wo_b.shape[1]);
              }),
              HasSubstr("tensor layers.0.attn.wo_b.weight: expected F8_E4M3 [256, 256], found "
                        "F8_E4M3 [128, 512] (joined from 2 ranks)"));
  EXPECT_THAT(ErrorWith([](auto& tensors) {
                TensorToWrite& sink = tensors.at("layers.0.attn.attn_sink");
                sink.shape = {1};
                sink.data = sink.data.first(4);
              }),
              HasSubstr("tensor layers.0.attn.attn_sink: expected F32 [4], found F32 [2] (joined"));
}

TEST_F(FaultyRanks, ExpertInNoRankIsMissing) {
  EXPECT_THAT(ErrorWith([](auto& tensors) { tensors.erase("layers.0.ffn.experts.4.w2.weight"); }),
              HasSubstr("1 tensors that the configuration demands are missing: "
                        "layers.0.ffn.experts.4.w2.weight"));
}

}  // namespace
}  // namespace dsv4::model
