#include "tools/model_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tests/support/temp_folder.h"

namespace dsv4::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kVariables[] = {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"};

class ModelPath : public ::testing::Test {
 protected:
  ModelPath() {
    for (const char* const name : kVariables) {
      if (const char* const value = std::getenv(name)) saved_[name] = value;
      ::unsetenv(name);
    }
    ::setenv("HOME", folder_.path().c_str(), 1);
  }
  ~ModelPath() override {
    for (const char* const name : kVariables) ::unsetenv(name);
    for (const auto& [name, value] : saved_) ::setenv(name.c_str(), value.c_str(), 1);
  }

  // Puts a model into the cache at `hub` and returns its snapshot.
  fs::path Cache(const std::string& hub) {
    folder_.Write(hub + "/models--org--name/refs/main", "77");
    const fs::path blob = folder_.Write(hub + "/models--org--name/blobs/1", "{}");
    const fs::path snapshot = folder_ / (hub + "/models--org--name/snapshots/77");
    fs::create_directories(snapshot);
    fs::create_symlink(blob, snapshot / "config.json");
    return snapshot;
  }
  void Set(const char* name, std::string_view folder) {
    ::setenv(name, (folder_ / folder).c_str(), 1);
  }

  testing::TempFolder folder_;
  std::map<std::string, std::string> saved_;
};

TEST_F(ModelPath, PathIsTakenAsItIs) {
  EXPECT_EQ(ModelPathFromArgument(folder_.path().string()).value(), folder_.path());
}

TEST_F(ModelPath, FileOfAModelIsRefusedWithItsFolder) {
  const fs::path file = folder_.Write("m/model0-mp2.safetensors", "x");
  const auto path = ModelFolderFromArgument(file.string());
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(
      path.error().message,
      HasSubstr("model0-mp2.safetensors: expected the folder of a model, found a file; give "
                "the folder: " +
                (folder_ / "m").string()));
  EXPECT_EQ(ModelFolderFromArgument((folder_ / "m").string()).value(), folder_ / "m");
}

TEST_F(ModelPath, DefaultCacheIsInTheHomeFolder) {
  const fs::path snapshot = Cache(".cache/huggingface/hub");
  EXPECT_EQ(ModelPathFromArgument("org/name").value(), snapshot);
  EXPECT_TRUE(fs::exists(snapshot / "config.json"));
}

TEST_F(ModelPath, VariablesGoBeforeTheDefaultInTheirOrder) {
  const fs::path xdg = Cache("xdg/huggingface/hub");
  const fs::path home = Cache("home/hub");
  const fs::path hub = Cache("cache");
  Set("XDG_CACHE_HOME", "xdg");
  EXPECT_EQ(ModelPathFromArgument("org/name").value(), xdg);
  Set("HF_HOME", "home");
  EXPECT_EQ(ModelPathFromArgument("org/name").value(), home);
  Set("HF_HUB_CACHE", "cache");
  EXPECT_EQ(ModelPathFromArgument("org/name").value(), hub);
  ::setenv("HF_HUB_CACHE", "~/home/hub", 1);
  EXPECT_EQ(ModelPathFromArgument("org/name").value(), home);
}

TEST_F(ModelPath, ErrorNamesThePlaceLookedAt) {
  Set("HF_HOME", "home");
  const auto path = ModelPathFromArgument("org/name");
  ASSERT_FALSE(path);
  EXPECT_THAT(path.error().message, HasSubstr((folder_ / "home/hub/models--org--name").string()));
}

}  // namespace
}  // namespace dsv4::tools
