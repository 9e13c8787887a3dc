#include "platform/memory_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;

constexpr char kMeminfo[] = "MemTotal:       1000 kB\nMemFree: 5 kB\nMemAvailable:    600 kB\n";

TEST(MemoryInfo, WithoutGroupsTheMachineCounts) {
  const testing::TempFolder root;
  root.Write("proc/meminfo", kMeminfo);
  const auto info = ReadMemoryInfo(root.path());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->total_bytes, 1000 * 1024);
  EXPECT_EQ(info->available_bytes, 600 * 1024);
}

TEST(MemoryInfo, LimitOfAGroupAboveCounts) {
  const testing::TempFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "0::/outer/inner\n");
  root.Write("sys/fs/cgroup/outer/memory.max", "400000\n");
  root.Write("sys/fs/cgroup/outer/memory.current", "150000\n");
  root.Write("sys/fs/cgroup/outer/memory.stat", "anon 50000\nfile 100000\nfile_mapped 7\n");
  root.Write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  const auto info = ReadMemoryInfo(root.path());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->total_bytes, 400000);
  EXPECT_EQ(info->available_bytes, 350000);
}

TEST(MemoryInfo, VersionOneGroupsCountAndAHugeLimitIsNone) {
  const testing::TempFolder root;
  root.Write("proc/meminfo", kMeminfo);
  root.Write("proc/self/cgroup", "8:pids:/x\n4:cpuset,memory:/box\n0::/\n");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.Write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "300000\n");
  root.Write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "290000\n");
  root.Write("sys/fs/cgroup/memory/box/memory.stat", "cache 1\ntotal_cache 90000\n");
  const auto info = ReadMemoryInfo(root.path());
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->total_bytes, 300000);
  EXPECT_EQ(info->available_bytes, 100000);
}

TEST(MemoryInfo, WithoutMeminfoTheFileIsNamed) {
  const testing::TempFolder root;
  const auto info = ReadMemoryInfo(root.path());
  ASSERT_FALSE(info);
  EXPECT_THAT(info.error().message, HasSubstr("proc/meminfo"));
}

TEST(MemoryInfo, ThisMachineHasMemory) {
  const auto info = ReadMemoryInfo();
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_GT(info->available_bytes, 0);
  EXPECT_LE(info->available_bytes, info->total_bytes);
}

}  // namespace
}  // namespace dsv4
