// Which weights Experts asks to be read from disk, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"
#include "tests/support/recorded_reads.h"

namespace dsv4 {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr int64_t kDim = 64;
constexpr int64_t kInner = 32;
constexpr int32_t kExperts = 5;
constexpr int32_t kChosen = 2;
constexpr int64_t kRows = 3;
constexpr int32_t kRoutes[kRows * kChosen] = {3, 1, 1, 4, 3, 4};  // not 0, not 2

class ExpertReads : public ::testing::Test {
 protected:
  ExpertReads() {
    // FP8 with scales for each 32 x 32; the codes are numbers below 1.
    for (size_t i = 0; i < codes_.size(); ++i) codes_[i] = std::byte(i % 40);
    std::byte* at = codes_.data();
    const auto take = [&at](int64_t rows, int64_t cols) {
      WeightView weight{.format = WeightFormat::kFp8, .scale_format = ScaleFormat::kE8m0};
      weight.rows = rows;
      weight.cols = cols;
      weight.block_rows = weight.block_cols = 32;
      weight.data = at;
      at += weight.bytes().size();
      weight.scale = at;
      at += weight.scale_bytes().size();
      return weight;
    };
    for (int32_t e = 0; e < kExperts; ++e) {
      experts_.push_back({take(kInner, kDim), take(kDim, kInner), take(kInner, kDim)});
    }
    for (int64_t i = 0; i < kRows * kDim; ++i) {
      x_.push_back(ToBf16(static_cast<float>(i % 13) - 6.0f));
    }
  }

  std::vector<float> Run(ReadAhead* read_ahead, uint8_t* asked) {
    Workspace workspace = Workspace::Create(int64_t{1} << 24).value();
    const ActivationSpec spec{kernels::Activation::kQuantized, kernels::ActScale::kPowerOfTwo, 32};
    std::vector<float> out(kRows * kDim);
    ExpertsArgs args;
    args.x = ops_->Prepare(x_.data(), kRows, kDim, kDim, spec, workspace);
    args.experts = experts_;
    args.chosen = kRoutes;
    args.num_chosen = kChosen;
    args.hidden_spec = spec;
    args.out = out.data();
    args.read_ahead = read_ahead;
    args.asked = asked;
    ops_->Experts(args, workspace);
    return out;
  }
  // Of the experts, the first product's weights and then the second's, each followed by its scales.
  std::vector<std::string> Expected(const testing::RecordedReads& reads,
                                    const std::vector<size_t>& experts) const {
    std::vector<std::string> names;
    const auto add = [&](const WeightView& weight) {
      names.push_back(reads.Name(weight.bytes()));
      names.push_back(reads.Name(weight.scale_bytes()));
    };
    for (const size_t e : experts) {
      add(experts_[e].w1);
      add(experts_[e].w3);
    }
    for (const size_t e : experts) add(experts_[e].w2);
    return names;
  }

  const std::unique_ptr<Ops> ops_ = MakeCpuOps(**kernels::Choose(""), 2);
  std::vector<std::byte> codes_ = std::vector<std::byte>(1 << 16);
  std::vector<ExpertView> experts_;
  std::vector<Bf16> x_;
};

TEST_F(ExpertReads, TheChosenExpertsAreReadInTheOrderOfTheirUseAndNoOthers) {
  testing::RecordedReads reads(codes_);
  ReadAhead read_ahead(int64_t{1} << 20, reads.Reading());
  const std::vector<float> out = Run(&read_ahead, nullptr);
  auto expected = Expected(reads, {1, 3, 4});
  EXPECT_THAT(reads.Get(expected.size()), ElementsAreArray(expected));
  EXPECT_EQ(out, Run(nullptr, nullptr)) << "reading changes no result";
  // Where weights do not stay in memory each use asks again.
  Run(&read_ahead, nullptr);
  const size_t count = expected.size();
  for (size_t i = 0; i < count; ++i) expected.push_back(expected[i]);
  EXPECT_THAT(reads.Get(expected.size()), ElementsAreArray(expected));
}

TEST_F(ExpertReads, ThoseThatStayInMemoryAreAskedForOnce) {
  testing::RecordedReads reads(codes_);
  ReadAhead read_ahead(int64_t{1} << 20, reads.Reading());
  std::vector<uint8_t> asked = {0, 1, 0, 0, 0};
  Run(&read_ahead, asked.data());
  const auto expected = Expected(reads, {3, 4});
  EXPECT_THAT(reads.Get(expected.size()), ElementsAreArray(expected));
  EXPECT_EQ(asked, (std::vector<uint8_t>{0, 1, 0, 1, 1}));
  Run(&read_ahead, asked.data());
  EXPECT_EQ(reads.Get(expected.size()).size(), expected.size());
}

TEST_F(ExpertReads, ASmallWindowMovesOnWithTheComputing) {
  testing::RecordedReads reads(codes_);
  ReadAhead read_ahead(4000, reads.Reading());  // of about 18,000
  Run(&read_ahead, nullptr);
  const auto expected = Expected(reads, {1, 3, 4});
  // All is used in the end, so all is read unless computing has left it behind.
  EXPECT_THAT(reads.Get(expected.size()), ElementsAreArray(expected));
}

}  // namespace
}  // namespace dsv4
