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

TEST(ReadFile, WhatCannotBeReadIsAnErrorThatNamesIt) {
  const TempFolder folder;
  const auto missing = ReadFile(folder / "none");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/none: cannot be read"));
  const auto of_folder = ReadFile(folder.path());
  ASSERT_FALSE(of_folder);
  EXPECT_THAT(of_folder.error().message, HasSubstr(": cannot be read"));
}

}  // namespace
}  // namespace dsv4
