#include "platform/process_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

TEST(ProcessInfo, TouchedMemoryIsResidentAndThePeakStays) {
  constexpr int64_t kTouched = 64 << 20;
  constexpr int64_t kUnsettled = 1 << 20;  // the kernel adds up what its processors count later
  const ProcessMemory before = ReadProcessMemory().value();
  ProcessMemory during;
  {
    const std::vector<char> touched(kTouched, 1);
    during = ReadProcessMemory().value();
  }
  EXPECT_GE(during.anonymous_bytes, before.anonymous_bytes + kTouched * 9 / 10);
  EXPECT_GE(during.peak_bytes, during.anonymous_bytes - kUnsettled);
  EXPECT_GT(during.file_bytes, 0);
  EXPECT_GE(ReadProcessMemory()->peak_bytes, during.peak_bytes - kUnsettled);
}

TEST(ProcessInfo, TheProcessAges) {
  const double before = SecondsSinceProcessStart().value();
  EXPECT_GE(before, 0);
  EXPECT_LT(before, 3600);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double later = SecondsSinceProcessStart().value();
  EXPECT_GE(later, before + 0.05);
  EXPECT_LT(later, before + 30);
}

TEST(ProcessInfo, TheNameOfAProgramMayHoldBlanksAndParentheses) {
  const TempFolder root;
  std::filesystem::create_directories(root / "proc/self");
  root.Write("proc/self/stat",
             "1 (a) b (c) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 0 23");
  EXPECT_GT(SecondsSinceProcessStart(root.path()).value(), 0);
}

TEST(ProcessInfo, ReadsOfDisksAreCountedApartFromReadsOfMemory) {
  const TempFolder root;
  std::filesystem::create_directories(root / "proc/self");
  root.Write("proc/self/io", "rchar: 5\nwchar: 6\nsyscr: 7\nsyscw: 8\nread_bytes: 4096\n");
  EXPECT_EQ(BytesReadFromDisk(root.path()).value(), 4096);
}

TEST(ProcessInfo, WhatIsMissingIsNamed) {
  const TempFolder root;
  std::filesystem::create_directories(root / "proc/self");
  root.Write("proc/self/status", "Name:\tx\nVmHWM:\t  12 kB\nRssFile:\t 4 kB\n");
  root.Write("proc/self/stat", "1 (a) S 4");
  root.Write("proc/self/io", "rchar: 5\n");
  EXPECT_THAT(ReadProcessMemory(root.path()).error().message,
              HasSubstr("expected VmHWM, RssAnon and RssFile, found 2 of them"));
  EXPECT_THAT(BytesReadFromDisk(root.path()).error().message, HasSubstr("expected read_bytes"));
  EXPECT_THAT(SecondsSinceProcessStart(root.path()).error().message, HasSubstr("field 22"));
}

}  // namespace
}  // namespace dsv4
