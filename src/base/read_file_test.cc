#include "base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

TEST(ReadFile, GivesEveryByte) {
  const TempFolder folder;
  for (const size_t size : {size_t{0}, size_t{1}, size_t{65536}, size_t{200000}}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7);
    folder.Write("a", bytes);
    const auto read = ReadFile(folder / "a");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, bytes);
  }
}

TEST(ReadFile, WhatCannotBeOpenedIsBadInputWithItsReason) {
  const TempFolder folder;
  folder.Write("a", "");
  for (const auto& [path, reason] :
       {std::pair{folder / "none", "No such file or directory"},
        std::pair{folder.path(), "Is a directory"}, std::pair{folder / "a/b", "Not a directory"}}) {
    const auto read = ReadFile(path);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().kind, ErrorKind::kBadInput);
    EXPECT_EQ(read.error().message, path.string() + ": cannot be opened: " + reason);
  }
}

TEST(ReadFile, AFileAboveTheLimitIsRefused) {
  const TempFolder folder;
  folder.Write("a", "12345");
  EXPECT_TRUE(ReadFile(folder / "a", 5));
  const auto read = ReadFile(folder / "a", 4);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(read.error().message, HasSubstr("/a: expected at most 4 bytes, found more"));
}

}  // namespace
}  // namespace dsv4
