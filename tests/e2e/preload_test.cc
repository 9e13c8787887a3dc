// --preload and --mlock of the verbs that run a model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/lock_limit.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/tiny_model.h"

namespace dsv4 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProgramResult;

ProgramResult Generate(const testing::TinyModel& model, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {"generate", "--model", model.path(), "--input-file",
                                      "-",        "--seed",  "1",          "--max-new-tokens",
                                      "5"};
  command.insert(command.end(), flags.begin(), flags.end());
  return testing::RunDsv4(command, "hello");
}

TEST(PreloadFlags, TheAnswerIsTheSame) {
  const testing::TinyModel model;
  const ProgramResult plain = Generate(model, {});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  for (const char* flag : {"--preload", "--mlock"}) {
    const ProgramResult result = Generate(model, {flag});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, plain.out);
    EXPECT_THAT(result.err, IsEmpty()) << "no bar without a terminal";
  }
}

TEST(PreloadFlags, TheLimitOfLockingIsNamedAndPreloadHasNone) {
  const testing::TinyModel model;
  ProgramResult locked, preloaded;
  testing::WithLockLimit(uint64_t{64} << 10, [&] {
    locked = Generate(model, {"--mlock"});
    preloaded = Generate(model, {"--preload"});
  });
  EXPECT_EQ(locked.exit_code, 4);
  EXPECT_THAT(locked.err, AllOf(HasSubstr("dsv4: --mlock: "),
                                HasSubstr("(RLIMIT_MEMLOCK, ulimit -l) is 64 KiB")));
  EXPECT_EQ(preloaded.exit_code, 0) << preloaded.err;
}

TEST(PreloadFlags, EveryVerbThatRunsAModelHasThem) {
  for (const char* verb : {"generate", "chat", "bench", "trace"}) {
    const ProgramResult help = testing::RunDsv4({verb, "--help"});
    EXPECT_THAT(help.out, AllOf(HasSubstr("--preload"), HasSubstr("--mlock"))) << verb;
  }
}

}  // namespace
}  // namespace dsv4
