// A checkpoint converted for several ranks runs in one process and computes, bit for bit, what the
// checkpoint it was made of computes.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/convert.h"
#include "checkpoint/synth.h"
#include "ops/cpu_ops.h"
#include "tests/golden_support/identity.h"
#include "tests/support/compare.h"
#include "tests/support/exact_scale_model.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using testing::LoadedModel;
using tools::NamedTensor;
using tools::TraceCase;

constexpr int64_t kLength = 200;

fs::path Golden(const std::string& variant) {
  return fs::path(DSV4_TEST_DATA) / "model" / variant / "checkpoint";
}

class RanksTest : public ::testing::TestWithParam<const kernels::Kernels*> {
 protected:
  fs::path Convert(const fs::path& source, int64_t num_experts, int world, bool fp8 = false) {
    const fs::path out = folder_ / fmt::format("{}-mp{}", ++num_made_, world);
    const Status status = ConvertCheckpoint({.source = source,
                                             .out = out,
                                             .num_experts = num_experts,
                                             .world = world,
                                             .fp8_experts = fp8});
    EXPECT_TRUE(status) << status.error().message;
    return out;
  }

  // Logits of a long sequence in one go, and of another token by token after a short prefill; MTP
  // logits too where the model has them.
  std::vector<NamedTensor> Answers(const fs::path& model) {
    LoadedModel loaded = testing::LoadModel(model, 2, *GetParam());
    if (loaded.model == nullptr) return {};
    return Answers(*loaded.model);
  }
  std::vector<NamedTensor> Answers(model::Model& model) {
    const int64_t vocab = model.config().vocab_size;
    std::vector<NamedTensor> answers =
        testing::RunAll(model, testing::CaseOf(testing::RandomTokens(kLength, vocab, 1)));
    TraceCase stepwise = testing::CaseOf(testing::RandomTokens(20, vocab, 2));
    stepwise.prefill = 5;
    for (NamedTensor& tensor : testing::RunAll(model, stepwise)) {
      answers.push_back(std::move(tensor));
    }
    return answers;
  }

  void ExpectSameAnswers(const fs::path& model, const fs::path& original) {
    SCOPED_TRACE(model);
    ExpectSame(Answers(model), Answers(original));
  }
  static void ExpectSame(const std::vector<NamedTensor>& got,
                         const std::vector<NamedTensor>& want) {
    ASSERT_FALSE(want.empty());
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const auto verdict = test::SameBytes(got[i].data, want[i].data, sizeof(float));
      EXPECT_TRUE(verdict.ok) << want[i].name << ": " << verdict.text;
    }
  }

  testing::TempFolder folder_;
  int num_made_ = 0;
};

TEST_P(RanksTest, Fp8WithFp4ExpertsAndMtp) {
  ExpectSameAnswers(Convert(Golden("flash-tiny"), 8, 2), Golden("flash-tiny"));
}

// Weights are then paged from disk, but not what was joined.
TEST_P(RanksTest, WhereMemoryIsShort) {
  const std::unique_ptr<Ops> ops = MakeCpuOps(*GetParam(), 2);
  auto model = model::Model::Load(Convert(Golden("flash-tiny"), 8, 2), *ops,
                                  {.max_rows = 1024, .memory_bytes = 1 << 20});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE((*model)->weights_stay_in_memory());
  ExpectSame(Answers(**model), Answers(Golden("flash-tiny")));
}

TEST_P(RanksTest, FourRanks) {
  const std::vector<SynthSetting> settings = {
      {"vocab_size", "512"}, {"o_groups", "4"}, {"num_hidden_layers", "4"}};
  const auto model = SynthModel::Make("tiny-flash", settings);
  ASSERT_TRUE(model && WriteSynth(*model, {.out = folder_ / "source"}));
  ExpectSameAnswers(Convert(folder_ / "source", 8, 4), folder_ / "source");
}

TEST_P(RanksTest, Bf16) {
  for (const int world : {2, 4}) {
    ExpectSameAnswers(Convert(Golden("bf16-tiny"), 4, world), Golden("bf16-tiny"));
  }
}

TEST_P(RanksTest, Fp8Experts) {
  ExpectSameAnswers(Convert(Golden("fp8exp-tiny"), 4, 2), Golden("fp8exp-tiny"));
  // From FP4; held against the same conversion for one rank.
  ExpectSameAnswers(Convert(Golden("flash-tiny"), 8, 2, /*fp8=*/true),
                    Convert(Golden("flash-tiny"), 8, 1, /*fp8=*/true));
}

// Scales of fp32 that are no powers of two. Conversion rounds wo_a to bf16, so that the conversion
// for one rank is the original here.
TEST_P(RanksTest, Fp32Scales) {
  const testing::ExactScaleModel model("flash-tiny");
  ExpectSameAnswers(Convert(model.path(), 8, 2), Convert(model.path(), 8, 1));
}

INSTANTIATE_TEST_SUITE_P(EveryKernelSet, RanksTest, ::testing::ValuesIn(testing::AllKernels()),
                         [](const auto& test) {
                           return testing::Letters(std::string(test.param->name));
                         });

}  // namespace
}  // namespace dsv4
