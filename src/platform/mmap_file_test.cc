#include "platform/mmap_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;

TEST(MappedFile, HoldsTheBytesWhereverItIsMoved) {
  const TempFolder folder;
  auto file = MappedFile::Open(folder.Write("a", "hello"));
  ASSERT_TRUE(file);
  const std::byte* const data = file->bytes().data();
  const MappedFile moved = std::move(*file);
  EXPECT_TRUE(file->bytes().empty());
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.bytes().data(), data);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "hello", 5), 0);
}

TEST(MappedFile, EmptyFileIsAnEmptySpan) {
  const TempFolder folder;
  const auto file = MappedFile::Open(folder.Write("a", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, OnlyRegularFilesAreMapped) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const auto& [path, message] : {std::pair{folder / "pipe", "expected a regular file"},
                                      std::pair{folder.path(), "opened: Is a directory"}}) {
    const auto file = MappedFile::Open(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().kind, ErrorKind::kBadInput);
    EXPECT_THAT(file.error().message, HasSubstr(message));
  }
  const auto absent = MappedFile::Open(folder / "none");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(absent.error().message, HasSubstr("none: cannot be opened: No such file"));
}

}  // namespace
}  // namespace dsv4
