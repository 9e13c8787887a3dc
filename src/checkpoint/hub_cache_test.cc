#include "checkpoint/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "checkpoint/safetensors.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A cache as huggingface_hub makes it: two snapshots whose files are links into blobs.
class HubCache : public ::testing::Test {
 protected:
  HubCache() {
    model_ = cache_ / "models--org--name";
    const std::array<TensorToWrite, 1> tensors = {TensorToWrite{"a", DType::kU8, {0}, {}}};
    fs::create_directories(model_ / "blobs");
    EXPECT_TRUE(WriteSafetensors(model_ / "blobs/77aa", tensors));
    for (const char* const hash : {"abc123", "def456"}) {
      fs::create_directories(model_ / "snapshots" / hash);
      fs::create_symlink("../../blobs/77aa", model_ / "snapshots" / hash / "model.safetensors");
    }
    cache_.Write("models--org--name/refs/main", "abc123");
    cache_.Write("models--org--name/refs/refs/pr/1", "def456\n");
    cache_.Write("models--other--thing-2/refs/main", "0");
    fs::create_directory(cache_ / "datasets--org--data");
  }

  std::string ErrorOf(std::string_view model) {
    const auto path = ResolveModel(model, cache_.path());
    if (path) return "found " + path->string();
    EXPECT_EQ(path.error().kind, ErrorKind::kBadInput);
    return path.error().message;
  }

  testing::TempFolder cache_;
  fs::path model_;
};

TEST_F(HubCache, ExistingPathIsTakenAsItIs) {
  EXPECT_EQ(ResolveModel(cache_.path().string(), "/none").value(), cache_.path());
  const fs::path file = model_ / "snapshots/abc123/model.safetensors";
  EXPECT_EQ(ResolveModel(file.string(), "/none").value(), file);
}

TEST_F(HubCache, NamesResolveToSnapshots) {
  EXPECT_EQ(ResolveModel("org/name", cache_.path()).value(), model_ / "snapshots/abc123");
  EXPECT_EQ(ResolveModel("org/name@main", cache_.path()).value(), model_ / "snapshots/abc123");
  EXPECT_EQ(ResolveModel("org/name@def456", cache_.path()).value(), model_ / "snapshots/def456");
  EXPECT_EQ(ResolveModel("org/name@refs/pr/1", cache_.path()).value(), model_ / "snapshots/def456");
}

TEST_F(HubCache, SnapshotOfLinksOpens) {
  const auto path = ResolveModel("org/name", cache_.path());
  ASSERT_TRUE(path);
  const auto checkpoint = Checkpoint::Open(*path);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_NE(checkpoint->Find("a"), nullptr);
}

TEST_F(HubCache, ErrorsSayWhereAndWhatIsThere) {
  EXPECT_THAT(ErrorOf("org/absent"),
              AllOf(HasSubstr("nor is " + (cache_ / "models--org--absent").string() + " there"),
                    HasSubstr("models in the Hugging Face cache: org/name, other/thing-2")));
  EXPECT_THAT(ErrorOf("org/name@v2"), AllOf(HasSubstr("no revision v2"), HasSubstr("refs/v2"),
                                            HasSubstr("main, refs"), HasSubstr("abc123, def456")));
  EXPECT_THAT(ErrorOf("other/thing-2"),
              AllOf(HasSubstr("refs/main names the snapshot \"0\""), HasSubstr("holds nothing")));
  for (const char* const name : {"name", "/no/such/folder", "../x", "a/b/c", "org/..", "org/",
                                 "org/name@", "org/name@../../x", "org/name@/etc"}) {
    EXPECT_THAT(ErrorOf(name), HasSubstr("no org/name or org/name@revision")) << name;
  }
}

}  // namespace
}  // namespace dsv4
