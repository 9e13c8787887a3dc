#include "platform/preload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "platform/file_pages.h"
#include "tests/support/lock_limit.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

constexpr int64_t kFirst = int64_t{20} << 20;
constexpr int64_t kSecond = int64_t{5} << 20;
constexpr int64_t kEnough = int64_t{1} << 40;

class Recorder : public Progress {
 public:
  void Start(std::string_view what, uint64_t total) override {
    what_ = what;
    total_ = total;
    thread_ = std::this_thread::get_id();
  }
  void Update(uint64_t done) override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    EXPECT_LE(done, total_);
  }
  void Finish() override { finished_ = true; }

  std::string what_;
  uint64_t total_ = 0;
  bool finished_ = false;
  std::thread::id thread_;
};

class Preload : public ::testing::Test {
 protected:
  Preload() : paths_{folder_.Write("a", ""), folder_.Write("b", ""), folder_.Write("empty", "")} {
    EXPECT_EQ(::truncate(paths_[0].c_str(), kFirst), 0);
    EXPECT_EQ(::truncate(paths_[1].c_str(), kSecond), 0);
  }
  int64_t resident() const {
    int64_t bytes = 0;
    for (const auto& path : paths_) {
      const MappedFile file = MappedFile::Open(path).value();
      bytes += ResidentBytes(file.bytes()).value();
    }
    return bytes;
  }

  TempFolder folder_;
  std::vector<std::filesystem::path> paths_;
  Recorder progress_;
};

TEST_F(Preload, AllPagesOfAllFilesAreInMemory) {
  EXPECT_EQ(resident(), 0);
  const int64_t locked = testing::LockedKilobytes();
  const auto files = PreloadedFiles::Read(paths_, kEnough, {.num_threads = 3}, progress_);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->bytes(), kFirst + kSecond);
  EXPECT_EQ(resident(), kFirst + kSecond);
  EXPECT_EQ(testing::LockedKilobytes(), locked);
  EXPECT_EQ(progress_.what_, "preload");
  EXPECT_EQ(progress_.total_, static_cast<uint64_t>(kFirst + kSecond));
  EXPECT_TRUE(progress_.finished_);
}

TEST_F(Preload, LockedFilesStayAsLongAsTheResult) {
  const int64_t before = testing::LockedKilobytes();
  {
    // Small enough for the usual limit of 8 MiB.
    const auto files =
        PreloadedFiles::Read(std::span(paths_).subspan(1), kEnough, {.lock = true}, progress_);
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_EQ(testing::LockedKilobytes(), before + kSecond / 1024);
    EXPECT_EQ(resident(), kSecond);
    EXPECT_EQ(progress_.what_, "locking");
  }
  EXPECT_EQ(testing::LockedKilobytes(), before);
}

TEST_F(Preload, WhatDoesNotFitIsNotRead) {
  const auto files = PreloadedFiles::Read(paths_, kFirst, {}, progress_);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kDoesNotFit);
  EXPECT_THAT(files.error().message, HasSubstr("take 25 MiB, 20 MiB of memory are available"));
  EXPECT_EQ(resident(), 0);
}

TEST_F(Preload, ALimitOfLockingIsFoundBeforeAnythingIsRead) {
  testing::WithLockLimit(uint64_t{21} << 20, [&] {
    const auto files = PreloadedFiles::Read(paths_, kEnough, {.lock = true}, progress_);
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().kind, ErrorKind::kDoesNotFit);
    EXPECT_THAT(files.error().message, HasSubstr("25600 KiB cannot be locked"));
  });
  EXPECT_EQ(resident(), 0);
}

TEST_F(Preload, AStopEndsIt) {
  const std::atomic<bool> stop = true;
  const auto files = PreloadedFiles::Read(paths_, kEnough, {.stop = &stop}, progress_);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().message, "interrupted");
  EXPECT_EQ(resident(), 0);
  EXPECT_TRUE(progress_.finished_);
}

TEST_F(Preload, AMissingFileIsNamed) {
  paths_.push_back(folder_ / "absent");
  const auto files = PreloadedFiles::Read(paths_, kEnough, {}, progress_);
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("absent: cannot be opened"));
}

}  // namespace
}  // namespace dsv4
