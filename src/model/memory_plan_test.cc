#include "model/memory_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/json.h"
#include "checkpoint/names.h"
#include "checkpoint/synth_config.h"
#include "model/kv_cache.h"

namespace dsv4::model {
namespace {

ModelConfig Preset(const char* name, const std::vector<SynthSetting>& settings = {}) {
  const SynthConfig synth = MakeSynthConfig(name, settings).value();
  return ParseConfig(json::Parse(synth.json).value()).value();
}

class GoldenParameters : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenParameters, AreTheElementsOfTheCheckpoint) {
  const std::filesystem::path folder =
      std::filesystem::path(DSV4_TEST_DATA) / "model" / GetParam() / "checkpoint";
  const ParameterCounts counts = CountParameters(LoadConfig(folder).value());
  int64_t total = 0;
  int64_t mtp = 0;
  const Checkpoint checkpoint = Checkpoint::Open(folder).value();
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.name.ends_with(".scale") || tensor.name.ends_with(".tid2eid") ||
        IsIgnoredTensor(tensor.name)) {
      continue;
    }
    const int64_t elements = tensor.num_elements() * (tensor.dtype == DType::kI8 ? 2 : 1);
    (tensor.name.starts_with("mtp.") ? mtp : total) += elements;
  }
  EXPECT_EQ(counts.total, total);
  EXPECT_EQ(counts.mtp, mtp);
}

INSTANTIATE_TEST_SUITE_P(AllVariants, GoldenParameters,
                         ::testing::Values("flash-tiny", "pro-tiny", "bf16-tiny", "fp8exp-tiny",
                                           "one-window", "one-csa", "one-hca"));

// Published: Flash 284 and 13 thousand million, Pro 1.6 million million and 49 thousand million.
TEST(MemoryPlan, PublishedModelsHaveTheirPublishedSizes) {
  const ParameterCounts flash = CountParameters(Preset("flash"));
  EXPECT_EQ((flash.total + 500'000'000) / 1'000'000'000, 284);
  EXPECT_EQ((flash.active + 500'000'000) / 1'000'000'000, 13);
  const ParameterCounts pro = CountParameters(Preset("pro"));
  EXPECT_EQ((pro.total + 50'000'000'000) / 100'000'000'000, 16);
  EXPECT_EQ((pro.active + 500'000'000) / 1'000'000'000, 49);
}

// A slice of a published model keeps its num_hash_layers.
TEST(MemoryPlan, WithMoreHashLayersThanLayersAllButTheMtpBlocksAreHashRouted) {
  const ModelConfig slice = Preset("flash", {{"num_hidden_layers", "1"}});
  EXPECT_EQ(slice.num_hash_layers, 3);
  EXPECT_TRUE(slice.is_hash_routed(0));
  EXPECT_FALSE(slice.is_hash_routed(1));
}

TEST(MemoryPlan, FlashKeepsItsContextInTheBytesOfTheRowFormats) {
  const ModelConfig config = Preset("flash");
  const MemoryPlan plan = PlanMemory(config, 0, 0, 0);
  // 21 layers of ratio 4 (32 rows of 584 bytes with 32 index rows of 68) and 20 of ratio 128.
  const int64_t page = 21 * (32 * (584 + 68)) + 20 * 584;
  EXPECT_NEAR(static_cast<double>(plan.kv_page_bytes), static_cast<double>(page), 64 * 63);
  EXPECT_GE(plan.kv_page_bytes, page);
  EXPECT_EQ(plan.kv_bytes(1 << 20), plan.kv_page_bytes * 8192);
  EXPECT_EQ(plan.kv_bytes(1), plan.kv_page_bytes);
  EXPECT_EQ(plan.kv_bytes(0), 0);
  EXPECT_EQ(plan.context, 1 << 20);
  EXPECT_EQ(plan.state_bytes, KvLayout(config).slot_bytes());
}

TEST(MemoryPlan, VerdictChangesExactlyWhereTheBytesEnd) {
  MemoryPlan plan{.weights_bytes = 1000,
                  .workspace_bytes = 10,
                  .state_bytes = 20,
                  .kv_page_bytes = 3,
                  .context = 256,
                  .available_bytes = 0};
  EXPECT_EQ(plan.working_bytes(), 36);
  const std::pair<int64_t, Fit> cases[] = {{0, Fit::kDoesNotFit},
                                           {35, Fit::kDoesNotFit},
                                           {36, Fit::kWeightsPageFromDisk},
                                           {1035, Fit::kWeightsPageFromDisk},
                                           {1036, Fit::kInMemory}};
  for (const auto& [available, fit] : cases) {
    plan.available_bytes = available;
    EXPECT_EQ(plan.fit(), fit) << available;
  }
}

TEST(MemoryPlan, JoinedTensorsDoNotPageFromDisk) {
  MemoryPlan plan{
      .weights_bytes = 1000, .joined_bytes = 100, .workspace_bytes = 30, .context = 256};
  const std::pair<int64_t, Fit> cases[] = {{129, Fit::kDoesNotFit},
                                           {130, Fit::kWeightsPageFromDisk},
                                           {1029, Fit::kWeightsPageFromDisk},
                                           {1030, Fit::kInMemory}};
  for (const auto& [available, fit] : cases) {
    plan.available_bytes = available;
    EXPECT_EQ(plan.fit(), fit) << available;
  }
  plan.kv_page_bytes = 3;
  plan.available_bytes = 133;
  EXPECT_EQ(plan.longest_context(), 128);
}

TEST(MemoryPlan, LongestContextIsWhatTheRoomHolds) {
  MemoryPlan plan{.workspace_bytes = 10, .state_bytes = 20, .kv_page_bytes = 3, .context = 256};
  const std::pair<int64_t, int64_t> cases[] = {{29, 0}, {32, 0}, {33, 128}, {36, 256}, {99, 256}};
  for (const auto& [available, tokens] : cases) {
    plan.available_bytes = available;
    EXPECT_EQ(plan.longest_context(), tokens) << available;
  }
  plan.kv_page_bytes = 0;
  EXPECT_EQ(plan.longest_context(), 256);
}

}  // namespace
}  // namespace dsv4::model
