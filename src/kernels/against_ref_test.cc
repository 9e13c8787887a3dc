// Every entry of every set against ref, and the fast sets against each other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/ref/ref.h"
#include "tests/support/kernel_checks.h"
#include "tests/support/kernel_inputs.h"

namespace dsv4::kernels {
namespace {

using test::RandomBf16;
using test::RandomFloats;
using test::WildBf16;

class AgainstRef : public testing::TestWithParam<const Kernels*> {};

INSTANTIATE_TEST_SUITE_P(, AgainstRef, testing::ValuesIn(Runnable().begin(), Runnable().end()),
                         [](const auto& set) { return std::string(set.param->name); });

void ExpectAllHold(const std::vector<test::KernelCheck>& checks, const Kernels& set) {
  EXPECT_FALSE(checks.empty());
  for (const test::KernelCheck& check : checks) {
    EXPECT_TRUE(check.run(set)) << set.name << " " << check.op << " " << check.name;
  }
}

TEST_P(AgainstRef, Quantisation) { ExpectAllHold(test::QuantisationChecks(), *GetParam()); }
TEST_P(AgainstRef, Products) { ExpectAllHold(test::ProductChecks(), *GetParam()); }
TEST_P(AgainstRef, Rows) { ExpectAllHold(test::RowChecks(), *GetParam()); }
TEST_P(AgainstRef, Selection) { ExpectAllHold(test::SelectionChecks(), *GetParam()); }
TEST_P(AgainstRef, Experts) { ExpectAllHold(test::ExpertChecks(), *GetParam()); }

// Beyond ref all sets have one exp, and sums of the same few steps: docs/numerics.md promises it.
TEST(FastSets, HaveTheSameBitsWhereNoLanesAreAdded) {
  constexpr int32_t kWidth = 160, kHeads = 21, kKeys = 77;
  const IndexRowLayout layout{kWidth};
  std::vector<std::byte> q(static_cast<size_t>(kHeads * layout.row_bytes()));
  std::vector<std::byte> keys(static_cast<size_t>(kKeys * layout.row_bytes()));
  ref::PackIndexRows(RandomBf16(kHeads * kWidth, 30).data(), kHeads, layout, q.data());
  ref::PackIndexRows(RandomBf16(kKeys * kWidth, 31).data(), kKeys, layout, keys.data());
  const auto weights = RandomFloats(kHeads, 32);
  const std::byte* const runs[] = {keys.data()};
  const auto scores = [&](const Kernels& set) {
    std::vector<float> out(kKeys);
    set.index_scores({.q = q.data(),
                      .weights = weights.data(),
                      .num_heads = kHeads,
                      .layout = layout,
                      .runs = runs,
                      .run_length = kKeys,
                      .end = kKeys,
                      .scores = out.data()});
    return out;
  };
  const auto gate = WildBf16(5000, 33);
  const auto up = RandomBf16(5000, 34);
  const auto swiglu = [&](const Kernels& set) {
    std::vector<Bf16> out(5000);
    set.swiglu(
        {.gate = gate.data(), .up = up.data(), .num_rows = 1, .width = 5000, .output = out.data()});
    return out;
  };
  const auto score = RandomFloats(9 * 500, 35, 20.0f);
  const auto kv = RandomFloats(9 * 500, 36);
  const auto pool = [&](const Kernels& set) {
    std::vector<const float*> kv_rows, score_rows;
    for (int r = 0; r < 9; ++r) {
      kv_rows.push_back(kv.data() + r * 500);
      score_rows.push_back(score.data() + r * 500);
    }
    std::vector<Bf16> out(500);
    set.pool({.kv = kv_rows.data(),
              .score = score_rows.data(),
              .num_rows = 9,
              .width = 500,
              .output = out.data()});
    return out;
  };
  const auto fast = Runnable().subspan(1);
  for (const Kernels* set : fast) {
    const Kernels& first = *fast.front();
    EXPECT_EQ(scores(*set), scores(first)) << set->name;
    EXPECT_EQ(swiglu(*set), swiglu(first)) << set->name;
    EXPECT_EQ(pool(*set), pool(first)) << set->name;
  }
}

}  // namespace
}  // namespace dsv4::kernels
