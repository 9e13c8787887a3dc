#include "platform/file_pages.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "platform/mmap_file.h"
#include "tests/support/lock_limit.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr int64_t kSize = int64_t{3} << 20;

// A file of zeros of which no page is in memory.
class FilePages : public ::testing::Test {
 protected:
  FilePages() : path_(folder_.Write("zeros", "")) {
    EXPECT_EQ(::truncate(path_.c_str(), kSize), 0);
    file_.emplace(MappedFile::Open(path_).value());
  }
  std::span<const std::byte> bytes() const { return file_->bytes(); }
  int64_t resident() const { return ResidentBytes(bytes()).value(); }

  TempFolder folder_;
  std::filesystem::path path_;
  std::optional<MappedFile> file_;
};

TEST_F(FilePages, ATouchReadsOnePageWhereToldSo) {
  EXPECT_EQ(resident(), 0);
  SetPageFaults(bytes(), PageFault::kReadsOne);
  EXPECT_EQ(bytes()[kSize / 2], std::byte{0});
  EXPECT_EQ(resident(), PageBytes());
}

TEST_F(FilePages, ReadingBringsTheWholePagesOfASpan) {
  SetPageFaults(bytes(), PageFault::kReadsOne);
  const int64_t page = PageBytes();
  const auto span = bytes().subspan(static_cast<size_t>(page + 5), static_cast<size_t>(3 * page));
  ASSERT_TRUE(ReadPages(span));
  EXPECT_EQ(ResidentBytes(span).value(), 4 * page);
  EXPECT_EQ(resident(), 4 * page);
}

TEST_F(FilePages, ReadingAheadBringsAllOfALongSpan) {
  SetPageFaults(bytes(), PageFault::kReadsOne);
  ReadPagesAhead(bytes());
  for (int i = 0; i < 1000 && resident() < kSize; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(resident(), kSize);
}

TEST_F(FilePages, NothingIsAskedForAnEmptySpan) {
  ReadPagesAhead({});
  EXPECT_TRUE(ReadPages({}));
  EXPECT_EQ(ResidentBytes({}).value(), 0);
}

TEST_F(FilePages, PagesBeyondTheEndOfAFileCannotBeRead) {
  ASSERT_EQ(::truncate(path_.c_str(), kSize / 2), 0);
  const Status status = ReadPages(bytes());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("cannot be read: "));
}

TEST_F(FilePages, LockedPagesAreCountedAsSuch) {
  const int64_t before = testing::LockedKilobytes();
  const std::span<const std::byte> mappings[] = {bytes()};
  ASSERT_TRUE(LockPages(mappings)) << "needs a limit of 3 MiB";
  EXPECT_EQ(testing::LockedKilobytes(), before + kSize / 1024);
  EXPECT_EQ(resident(), 0) << "nothing is read before it is touched";
  file_.reset();
  EXPECT_EQ(testing::LockedKilobytes(), before);
}

TEST_F(FilePages, TheLimitOfLockingIsNamed) {
  Status status;
  testing::WithLockLimit(uint64_t{1} << 20, [&] {
    const std::span<const std::byte> mappings[] = {bytes()};
    status = LockPages(mappings);
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kDoesNotFit);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("3072 KiB cannot be locked"),
                                            HasSubstr("(RLIMIT_MEMLOCK, ulimit -l) is 1024 KiB"),
                                            HasSubstr("limits.conf")));
}

}  // namespace
}  // namespace dsv4
