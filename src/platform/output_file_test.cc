#include "platform/output_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <optional>

#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReadFileText;
using testing::TempFolder;

TEST(OutputFile, AppearsUnderItsNameWhenCommitted) {
  const TempFolder folder;
  auto file = OutputFile::Create(folder / "a");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->Write("one "));
  EXPECT_FALSE(fs::exists(folder / "a"));
  ASSERT_TRUE(file->Write("two"));
  ASSERT_TRUE(file->Commit());
  EXPECT_EQ(ReadFileText(folder / "a"), "one two");
}

TEST(OutputFile, LeavesTheOldFileWithoutCommit) {
  const TempFolder folder;
  folder.Write("a", "old");
  {
    auto file = OutputFile::Create(folder / "a");
    ASSERT_TRUE(file && file->Write("new"));
    OutputFile moved = std::move(*file);
    ASSERT_TRUE(moved.Write("er"));
  }
  EXPECT_EQ(ReadFileText(folder / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

// A limit on the size of files stands in for a full disk: the write that crosses it is short.
TEST(OutputFile, FullDiskIsReportedAndTidiedUp) {
  const TempFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::optional<Error> error;
  if (Status status = WriteTextFile(folder / "a", std::string(1500, 'x')); !status) {
    error = status.error();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, ErrorKind::kDoesNotFit);
  EXPECT_THAT(error->message, AllOf(HasSubstr("/a: "), HasSubstr("after 1000 bytes")));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(OutputFile, MissingFolderIsAnError) {
  const TempFolder folder;
  const auto file = OutputFile::Create(folder / "none/a");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("none/a: cannot be made"));
}

TEST(OutputFile, OnlyARegularFileIsReplaced) {
  const TempFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink("folder", folder / "link");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* const name : {"folder", "link", "pipe"}) {
    const auto file = OutputFile::Create(folder / name);
    ASSERT_FALSE(file) << name;
    EXPECT_EQ(file.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(file.error().message, HasSubstr("exists and is no regular file"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
}

TEST(OutputFile, ALinkStaysAndItsFileIsReplaced) {
  const TempFolder folder;
  folder.Write("sub/a", "old");
  fs::create_symlink("sub/a", folder / "link");
  ASSERT_TRUE(WriteTextFile(folder / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(ReadFileText(folder / "sub/a"), "new");
}

TEST(OutputFolder, NeedsAName) {
  const auto made = OutputFolder::Create("", OutputFolder::Existing::kEmpty);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::kUsage);
}

TEST(OutputFolder, FilledMeanwhileIsNotReplaced) {
  const TempFolder folder;
  auto out = OutputFolder::Create(folder / "out", OutputFolder::Existing::kEmpty);
  ASSERT_TRUE(out);
  folder.Write("out/other", "x");
  EXPECT_FALSE(out->Commit());
  EXPECT_EQ(ReadFileText(folder / "out/other"), "x");
}

TEST(OutputFolder, FileUnderTheNameIsNotReplaced) {
  const TempFolder folder;
  folder.Write("out", "x");
  for (const auto existing : {OutputFolder::Existing::kEmpty, OutputFolder::Existing::kReplace}) {
    const auto out = OutputFolder::Create(folder / "out", existing);
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().kind, ErrorKind::kUsage);
  }
}

TEST(OutputFolder, OnlyACheckpointIsReplaced) {
  const TempFolder folder;
  const auto replace = [&folder] {
    auto out = OutputFolder::Create(folder / "out", OutputFolder::Existing::kReplace);
    return out ? out->Commit() : std::unexpected(out.error());
  };
  folder.Write("out/precious.json", "x");
  folder.Write("out/config.json", "{}");
  EXPECT_FALSE(replace());
  folder.Write("out/model.safetensors", "x");
  fs::remove(folder / "out/config.json");
  const Status kept = replace();
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(kept.error().message, HasSubstr("expected config.json and *.safetensors"));
  EXPECT_EQ(ReadFileText(folder / "out/precious.json"), "x");
  folder.Write("out/config.json", "{}");
  EXPECT_TRUE(replace());
  EXPECT_TRUE(fs::is_empty(folder / "out"));
  EXPECT_TRUE(replace()) << "an empty folder";
}

TEST(OutputFolder, LinkUnderTheNameIsNotFollowed) {
  const TempFolder folder;
  fs::create_directory(folder / "target");
  fs::create_directory_symlink(folder / "target", folder / "out");
  EXPECT_FALSE(OutputFolder::Create(folder / "out", OutputFolder::Existing::kReplace));
}

}  // namespace
}  // namespace dsv4
