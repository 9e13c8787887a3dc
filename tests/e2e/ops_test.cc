// `dsv4 ops`: what it prints and when it fails.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/dispatch.h"
#include "tests/support/run_dsv4.h"

namespace dsv4 {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProgramResult;
using testing::RunDsv4;
using ::testing::SizeIs;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(Ops, ListNamesSetsAndEntries) {
  const ProgramResult result = RunDsv4({"ops", "list"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = Lines(result.out);
  ASSERT_THAT(lines, SizeIs(kernels::Compiled().size() + kernels::Entries().size()));
  EXPECT_EQ(lines[0], "set ref: runs here");
  int num_defaults = 0;
  for (const std::string& line : lines) num_defaults += line.ends_with(", the default");
  EXPECT_EQ(num_defaults, 1);
  EXPECT_THAT(result.out, HasSubstr(fmt::format("set {}: runs here, the default\n",
                                                kernels::Runnable().back()->name)));
  EXPECT_THAT(result.out, HasSubstr("\nproduct: ref avx2 "));
  // In the order of --version.
  std::string runnable;
  for (const std::string& line : lines) {
    if (line.find(": runs here") == std::string::npos) break;
    runnable += (runnable.empty() ? "" : " ") + line.substr(4, line.find(':') - 4);
  }
  EXPECT_THAT(RunDsv4({"--version"}).out, HasSubstr("(runs here: " + runnable + ")"));
}

TEST(Ops, CheckPrintsALineForEachCaseOfEachSet) {
  const ProgramResult result = RunDsv4({"ops", "check", "-o", "rope", "-p", "flash"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = Lines(result.out);
  EXPECT_THAT(lines, SizeIs(kernels::Runnable().size()));
  EXPECT_THAT(lines, Each(ContainsRegex("^ok   [a-z0-9_]+ rope flash heads: .* equal$")));
}

TEST(Ops, PerfPrintsTheLimitsAndALineForEachCase) {
  const ProgramResult result =
      RunDsv4({"ops", "perf", "-o", "product", "-p", "^fp4 1 x 4096 x 4096", "--threads", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = Lines(result.out);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines[0], ContainsRegex("^[a-z0-9_]+, 1 threads: reads [0-9.]+ GB/s, multiplies and "
                                      "adds [0-9.]+ GFLOP/s$"));
  for (const size_t i : {1, 2}) {
    EXPECT_THAT(
        lines[i],
        ContainsRegex("^product fp4 1 x 4096 x 4096( aligned)?: [0-9.]+ us, [0-9.]+ GB/s "
                      "\\([0-9]+ % of [0-9.]+\\), [0-9.]+ GFLOP/s \\([0-9]+ % of [0-9]+\\)$"));
  }
}

TEST(Ops, AFolderThatIsNotOfKernelsLacksTheirFile) {
  const std::string folder = DSV4_TEST_DATA "/model/flash-tiny/checkpoint";
  const ProgramResult result = RunDsv4({"ops", "golden", folder});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr(folder + "/kernels.json: cannot be opened"));
}

TEST(Ops, WrongSelectionsAreNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"ops", "check", "-o", "ropes"}, "--op \"ropes\" is no operation"},
      {{"ops", "perf", "-o", "ropes"}, "--op \"ropes\" is no operation"},
      {{"ops", "check", "-p", "["}, "--pattern \"[\" is no regular expression"},
      {{"ops", "check", "-p", "no such case"}, "no check matches"},
      {{"ops", "perf", "-p", "no such case"}, "no case matches"},
      {{"ops", "perf", "--threads", "0"},
       "--threads: expected a whole number from 1 to 1024, found \"0\""},
      {{"ops", "perf", "--threads", "1025"}, "--threads: expected a whole number from 1 to 1024"},
  };
  for (const auto& [words, message] : cases) {
    const ProgramResult result = RunDsv4(words);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.out, IsEmpty());
  }
}

}  // namespace
}  // namespace dsv4
