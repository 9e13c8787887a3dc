#include "platform/memory_info.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

class MemoryInfoTest : public testing::Test {
 protected:
  MemoryInfoTest()
      : root_(fs::temp_directory_path() / ("memory_info_test." + std::to_string(getpid()))) {
    fs::remove_all(root_);
  }
  ~MemoryInfoTest() override { fs::remove_all(root_); }
  void Write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(MemoryInfoTest, WithoutGroupsItIsTheMachines) {
  Write("proc/meminfo", "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   600 kB\n");
  const Result<MemoryInfo> info = ReadMemoryInfo(root_);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->total_bytes, 1000 * 1024);
  EXPECT_EQ(info->available_bytes, 600 * 1024);
}

TEST_F(MemoryInfoTest, TheTightestGroupCountsAndFilePagesAreFree) {
  Write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
  Write("proc/self/cgroup", "1:name=x:/y\n0::/outer/inner\n");
  Write("sys/fs/cgroup/outer/memory.max", "300000\n");
  Write("sys/fs/cgroup/outer/memory.stat", "file 250000\nanon 100000\n");
  Write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  const Result<MemoryInfo> info = ReadMemoryInfo(root_);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->total_bytes, 300000);
  EXPECT_EQ(info->available_bytes, 200000);
}

TEST_F(MemoryInfoTest, LockedPagesAreTaken) {
  Write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
  Write("proc/self/cgroup", "0::/a\n");
  Write("sys/fs/cgroup/a/memory.max", "300000\n");
  Write("sys/fs/cgroup/a/memory.stat", "anon 100000\nunevictable 50000\n");
  EXPECT_EQ(ReadMemoryInfo(root_)->available_bytes, 150000);
}

TEST_F(MemoryInfoTest, GroupsOfTheOldHierarchyCount) {
  Write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
  Write("proc/self/cgroup", "4:memory:/outer/inner\n3:cpu:/\n0::/\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", "300000\n");
  Write("sys/fs/cgroup/memory/outer/inner/memory.stat",
        "rss 1\ntotal_cache 7\ntotal_rss 100000\ntotal_unevictable 20000\n");
  const Result<MemoryInfo> info = ReadMemoryInfo(root_);
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->total_bytes, 300000);
  EXPECT_EQ(info->available_bytes, 180000);
}

TEST_F(MemoryInfoTest, AMissingFieldIsNamed) {
  Write("proc/meminfo", "MemTotal: 1000 kB\n");
  const Result<MemoryInfo> info = ReadMemoryInfo(root_);
  ASSERT_FALSE(info);
  EXPECT_NE(info.error().message.find("MemAvailable"), std::string::npos);
}

TEST(MemoryInfo, ThisMachineHasSome) {
  const Result<MemoryInfo> info = ReadMemoryInfo();
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_GT(info->available_bytes, 0);
  EXPECT_LE(info->available_bytes, info->total_bytes);
}

}  // namespace
}  // namespace dsv4
