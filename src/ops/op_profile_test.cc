#include "ops/op_profile.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"

namespace dsv4 {
namespace {

struct ProductCase {
  OpKind kind;
  WeightFormat format;
  ScaleFormat scale_format;
  int32_t block_rows;
  int32_t block_cols;
  // Of rows [128, 384) of a matrix [512, 256].
  int64_t bytes;
};

class OpProfileTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 512;
  static constexpr int64_t kCols = 256;

  // A product of `num_rows` rows with weight rows [128, 384).
  void RunProduct(const ProductCase& c, int64_t num_rows) {
    WeightView weight;
    weight.format = c.format;
    weight.scale_format = c.scale_format;
    weight.data = zeros_.data();
    weight.scale = c.scale_format == ScaleFormat::kNone ? nullptr : zeros_.data();
    weight.rows = kRows;
    weight.cols = kCols;
    weight.block_rows = c.block_rows;
    weight.block_cols = c.block_cols;
    ActivationSpec spec;
    if (c.scale_format != ScaleFormat::kNone) spec.activation = kernels::Activation::kQuantized;
    const std::vector<Bf16> x(static_cast<size_t>(num_rows * kCols));
    std::vector<Bf16> y(static_cast<size_t>(num_rows * 256));
    const Workspace::Scope scope(workspace_);
    const PreparedRows rows = ops_->Prepare(x.data(), num_rows, kCols, kCols, spec, workspace_);
    ops_->LinearSlice(rows, weight, 128, 384, y.data(), 256);
  }

  std::unique_ptr<Ops> ops_ = MakeCpuOps(**kernels::Choose("ref"), 2);
  Workspace workspace_ = Workspace::Create(1 << 20).value();
  std::vector<std::byte> zeros_ = std::vector<std::byte>(kRows * kCols * 4);
};

TEST_F(OpProfileTest, AProductCountsTheBytesItReadsAndItsArithmetic) {
  const ProductCase cases[] = {
      {OpKind::kLinearFp8, WeightFormat::kFp8, ScaleFormat::kE8m0, 128, 128, 256 * 256 + 2 * 2},
      {OpKind::kLinearFp8, WeightFormat::kFp8, ScaleFormat::kF32, 128, 128, 256 * 256 + 2 * 2 * 4},
      {OpKind::kLinearFp4, WeightFormat::kFp4, ScaleFormat::kE8m0, 1, 32, 256 * 128 + 256 * 8},
      {OpKind::kLinearBf16, WeightFormat::kBf16, ScaleFormat::kNone, 1, 1, 256 * 256 * 2},
      {OpKind::kLinearF32, WeightFormat::kF32, ScaleFormat::kNone, 1, 1, 256 * 256 * 4},
  };
  for (const ProductCase& c : cases) {
    OpProfile profile;
    ops_->set_profile(&profile);
    RunProduct(c, 3);
    RunProduct(c, 5);
    const OpProfile::Row& row = profile[c.kind];
    EXPECT_EQ(row.calls, 2) << Name(c.kind);
    EXPECT_EQ(row.bytes, 2 * c.bytes) << Name(c.kind);
    EXPECT_EQ(row.flops, 2 * (3 + 5) * 256 * 256) << Name(c.kind);
    EXPECT_GT(row.ns, 0) << Name(c.kind);
    EXPECT_EQ(profile[OpKind::kPrepare].calls, 2);
    int64_t others = 0;
    for (const OpProfile::Row& other : profile.rows) others += other.calls;
    EXPECT_EQ(others, 4) << "nothing else ran";
  }
}

TEST_F(OpProfileTest, WithoutAProfileNothingIsWritten) {
  const ProductCase c{OpKind::kLinearBf16, WeightFormat::kBf16, ScaleFormat::kNone, 1, 1,
                      256 * 256 * 2};
  OpProfile profile;
  ops_->set_profile(&profile);
  RunProduct(c, 3);
  const OpProfile before = profile;
  ops_->set_profile(nullptr);
  RunProduct(c, 3);
  for (size_t i = 0; i < kNumOpKinds; ++i) {
    EXPECT_EQ(profile.rows[i].calls, before.rows[i].calls);
    EXPECT_EQ(profile.rows[i].ns, before.rows[i].ns);
  }
}

TEST(OpProfile, EveryKindHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kNumOpKinds; ++i) names.insert(Name(static_cast<OpKind>(i)));
  EXPECT_EQ(names.size(), kNumOpKinds);
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace dsv4
