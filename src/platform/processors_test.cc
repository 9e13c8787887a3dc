#include "platform/processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cmath>
#include <thread>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

std::vector<int> Affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cpus.push_back(i);
  }
  return cpus;
}

std::vector<int> AllCpus(const Processors& processors) {
  std::vector<int> cpus;
  for (const auto& core : processors.cores) cpus.insert(cpus.end(), core.begin(), core.end());
  return cpus;
}

TEST(Processors, AreThoseOfTheAffinityMask) {
  EXPECT_THAT(AllCpus(ReadProcessors()), UnorderedElementsAreArray(Affinity()));
  EXPECT_GE(DefaultThreads(), 1);
  EXPECT_LE(DefaultThreads(), ReadProcessors().num_cores());
}

TEST(Processors, APinnedThreadSeesItsOwnAlone) {
  const int cpu = Affinity().back();
  std::thread([&] {
    PinThisThread({cpu});
    EXPECT_THAT(Affinity(), ElementsAre(cpu));
    EXPECT_THAT(AllCpus(ReadProcessors()), ElementsAre(cpu));
    EXPECT_EQ(ReadProcessors().max_running(), 1);
    EXPECT_EQ(DefaultThreads(), 1);
  }).join();
}

TEST(Processors, TheQuotaLimitsWhatRuns) {
  const auto running = [](double quota) {
    return Processors{{{0, 4}, {1, 5}, {2}}, quota}.max_running();
  };
  EXPECT_EQ(running(INFINITY), 5);
  EXPECT_EQ(running(2.5), 2);
  EXPECT_EQ(running(0.3), 1);
}

struct QuotaFiles {
  const char* groups;
  std::vector<std::pair<const char*, const char*>> files;
  double quota;
};

TEST(Processors, TheTightestGroupOfEitherVersionCounts) {
  const QuotaFiles cases[] = {
      {"", {}, INFINITY},
      {"0::/a/b\n", {{"sys/fs/cgroup/a/b/cpu.max", "max 100000\n"}}, INFINITY},
      {"0::/a/b\n",
       {{"sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
        {"sys/fs/cgroup/a/cpu.max", "150000 100000\n"}},
       1.5},
      {"0::/\n", {{"sys/fs/cgroup/cpu.max", "800000 200000\n"}}, 4},
      {"3:cpuset:/\n4:cpu,cpuacct:/a\n0::/x\n",
       {{"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n"},
        {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"}},
       INFINITY},
      {"3:cpuset:/\n4:cpu,cpuacct:/a\n0::/x\n",
       {{"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "300000\n"},
        {"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},
        {"sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n"},
        {"sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n"}},
       3},
  };
  for (const QuotaFiles& c : cases) {
    const testing::TempFolder root;
    root.Write("proc/self/cgroup", c.groups);
    for (const auto& [path, text] : c.files) root.Write(path, text);
    EXPECT_EQ(ReadCpuQuota(root.path()), c.quota) << c.groups;
  }
}

}  // namespace
}  // namespace dsv4
