#include "tools/ops_perf.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/dispatch.h"
#include "tools/ops_cases.h"
#include "tools/ops_cold.h"

namespace dsv4::tools {
namespace {

std::vector<PerfCase> AllCases() {
  std::vector<PerfCase> all;
  for (const auto cases : {ProductPerfCases, RowPerfCases, SelectionPerfCases}) {
    for (PerfCase& perf : cases()) all.push_back(std::move(perf));
  }
  return all;
}

TEST(OpsPerf, MeasuresEveryEntryUnderDistinctNames) {
  std::set<std::string> ops;
  std::set<std::string> names;
  for (const PerfCase& perf : AllCases()) {
    ops.insert(perf.op);
    EXPECT_TRUE(names.insert(perf.op + " " + perf.name).second) << perf.op << " " << perf.name;
    EXPECT_GT(perf.bytes, 0) << perf.name;
    EXPECT_GT(perf.items, 0) << perf.name;
    EXPECT_GE(perf.cold.bytes, 0) << perf.name;
  }
  for (const kernels::Entry& entry : kernels::Entries()) {
    EXPECT_EQ(ops.contains(std::string(entry.name)), !entry.name.ends_with("_bytes")) << entry.name;
  }
}

// Each case once, as the threads would cut it and in one piece; the sanitizers watch.
TEST(OpsPerf, EveryCaseOfOneTokenRuns) {
  Result<ColdMemory> cold = ColdMemory::Make();
  ASSERT_TRUE(cold) << cold.error().message;
  const kernels::Kernels& set = **kernels::Choose("");
  int num_run = 0;
  for (const PerfCase& perf : AllCases()) {
    if (perf.flops > 1e8 || (perf.cold.bytes == 0 && perf.bytes > 2e6)) continue;
    ++num_run;
    constexpr int kThreads = 3;
    const PerfCall call = perf.prepare(set, kThreads);
    if (perf.cold.bytes > 0) cold->Fill(perf.cold);
    const int64_t grain = perf.grain(kThreads);
    EXPECT_GT(grain, 0) << perf.name;
    for (int64_t begin = 0; begin < perf.items; begin += grain) {
      call(cold->Next(perf.cold.bytes, perf.cold.unit, perf.cold.offset), begin,
           std::min(perf.items, begin + grain), kThreads - 1);
    }
  }
  EXPECT_GT(num_run, 60);
}

TEST(OpsPerf, LimitsArePlausible) {
  ThreadPool pool(2);
  for (const kernels::Kernels* set : kernels::Runnable()) {
    const MachineLimits limits = MeasureLimits(pool, *set);
    EXPECT_GT(limits.read_bytes_per_s, 1e8) << set->name;
    EXPECT_LT(limits.read_bytes_per_s, 1e13) << set->name;
    EXPECT_GT(limits.flops, 1e8) << set->name;
    EXPECT_LT(limits.flops, 1e14) << set->name;
  }
}

TEST(ColdMemory, HandsOutEveryByteBeforeItComesAgain) {
  Result<ColdMemory> cold = ColdMemory::Make();
  ASSERT_TRUE(cold) << cold.error().message;
  constexpr int64_t kPart = int64_t{60} << 20;
  const std::byte* const first = cold->Next(kPart);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  const std::byte* last = first;
  int num_parts = 1;
  for (; num_parts < 100; ++num_parts) {
    const std::byte* const next = cold->Next(kPart);
    if (next == first) break;
    EXPECT_GE(next, last + kPart);
    last = next;
  }
  EXPECT_EQ(num_parts, 640 / 60);
}

TEST(ColdMemory, BeginsAtAUnitOfItsContentsAndTheOffset) {
  Result<ColdMemory> cold = ColdMemory::Make();
  ASSERT_TRUE(cold) << cold.error().message;
  int num_made = 0;
  ColdBytes bytes{.bytes = 584, .unit = 584, .contents = "rows", .make = {}};
  bytes.make = [&] {
    ++num_made;
    std::vector<std::byte> rows(584 * 3);
    rows[0] = rows[584] = rows[2 * 584] = std::byte{7};
    return rows;
  };
  cold->Fill(bytes);
  cold->Fill(bytes);
  EXPECT_EQ(num_made, 1) << "contents that are there stay";
  const std::byte* const base = cold->Next(1);
  EXPECT_EQ(*base, std::byte{7});
  for (int i = 0; i < 5; ++i) {
    cold->Next(100 + i);
    const std::byte* const row = cold->Next(bytes.bytes, bytes.unit);
    EXPECT_EQ((row - base) % 584, 0);
    EXPECT_EQ(*row, std::byte{7});
  }
  EXPECT_EQ((cold->Next(64, 64, 16) - base) % 64, 16);
}

}  // namespace
}  // namespace dsv4::tools
