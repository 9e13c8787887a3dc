#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/kv_cache.h"

namespace dsv4::engine {
namespace {

using testing::HasSubstr;

class MemoryPlanTest : public testing::Test {
 protected:
  MemoryPlanTest() : config_(Load()), layout_(config_) {}
  static model::ModelConfig Load() {
    auto config = model::LoadConfig(DSV4_TEST_DATA "/model/flash-tiny/checkpoint");
    EXPECT_TRUE(config) << config.error().message;
    config->max_positions = 100000;
    return *config;
  }
  int64_t Bytes(int64_t slots, int64_t pages) const {
    return slots * layout_.slot_bytes() + pages * layout_.page_bytes();
  }

  model::ModelConfig config_;
  model::KvLayout layout_;
};

TEST_F(MemoryPlanTest, WhereMemoryIsPlentyAllIsGranted) {
  const auto plan = PlanMemory(
      config_,
      {.num_sequences = 3, .context = 1000, .num_snapshots = 5, .budget_bytes = int64_t{1} << 40});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->context, 1000);
  EXPECT_EQ(plan->num_slots, 3);
  EXPECT_EQ(plan->num_snapshots, 5);
  EXPECT_EQ(plan->num_pages, 24);
  EXPECT_EQ(plan->bytes, Bytes(8, 24));
  const auto few = PlanMemory(config_, {.num_sequences = 3,
                                        .context = 1000,
                                        .total_tokens = 1100,
                                        .budget_bytes = int64_t{1} << 40});
  EXPECT_EQ(few->num_pages, 11) << "9 and one for each border between sequences";
}

TEST_F(MemoryPlanTest, WhereItIsScarceOneWholeContextComesFirst) {
  const auto plan = PlanMemory(config_, {.num_sequences = 9,
                                         .context = 1000,
                                         .num_snapshots = 5,
                                         .budget_bytes = Bytes(1, 8) + layout_.slot_bytes() / 2});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->num_slots, 1);
  EXPECT_EQ(plan->num_snapshots, 0);
  EXPECT_EQ(plan->num_pages, 8);
  const auto more = PlanMemory(
      config_,
      {.num_sequences = 2, .context = 1000, .num_snapshots = 5, .budget_bytes = Bytes(4, 8)});
  EXPECT_EQ(more->num_slots, 2);
  EXPECT_EQ(more->num_snapshots, 2);
  EXPECT_LE(more->bytes, Bytes(4, 8));
}

TEST_F(MemoryPlanTest, AnUnsaidContextIsWhatFits) {
  const auto plan = PlanMemory(config_, {.budget_bytes = Bytes(1, 10)});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->context, 1280);
  EXPECT_EQ(plan->num_pages, 10);
  EXPECT_EQ(PlanMemory(config_, {.budget_bytes = int64_t{1} << 40})->context, 100000);
  const auto shared =
      PlanMemory(config_, {.num_sequences = 3, .num_snapshots = 2, .budget_bytes = Bytes(10, 10)});
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_EQ(shared->num_slots, 3);
  EXPECT_EQ(shared->num_snapshots, 2);
  EXPECT_GE(shared->context, 1280);
}

TEST_F(MemoryPlanTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const auto big = PlanMemory(config_, {.context = 100001, .budget_bytes = int64_t{1} << 40});
  ASSERT_FALSE(big);
  EXPECT_EQ(big.error().kind, ErrorKind::kDoesNotFit);
  EXPECT_EQ(big.error().message, "a context of 100001 tokens is more than the model's 100000");
  for (const int64_t context : {int64_t{1280}, int64_t{0}}) {
    const auto small = PlanMemory(config_, {.context = context, .budget_bytes = 1 << 10});
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().kind, ErrorKind::kDoesNotFit);
    EXPECT_THAT(small.error().message, HasSubstr("0.0 MiB are to be had"));
  }
}

}  // namespace
}  // namespace dsv4::engine
