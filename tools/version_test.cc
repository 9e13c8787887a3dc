#include "tools/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace dsv4::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(VersionText, NamesCompilerKernelsAndLibraries) {
  const std::string text = VersionText();
  EXPECT_THAT(text, ContainsRegex("^dsv4 [0-9]+\\.[0-9]+"));
  EXPECT_THAT(text, ContainsRegex("compiler: (g\\+\\+|clang) [0-9]+"));
  EXPECT_THAT(text, ContainsRegex("kernels: [a-z0-9_]+ \\(runs here: .*ref"));
  for (const char* library : {"fmt", "CLI11", "RapidJSON", "libedit", "xxHash", "OpenSSL"}) {
    EXPECT_THAT(text, ContainsRegex(std::string(library) + " [0-9]+\\.[0-9]+")) << library;
  }
}

TEST(VersionText, TheKernelsAreThoseThatAreForced) {
  setenv("DSV4_KERNELS", "ref", 1);
  EXPECT_THAT(VersionText(), HasSubstr("kernels: ref ("));
  unsetenv("DSV4_KERNELS");
}

}  // namespace
}  // namespace dsv4::tools
