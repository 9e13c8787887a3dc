// A model of a family whose chat format is not known, as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace dsv4::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kMessages[] = R"([{"role":"user","content":"Hello"}])";

class DialectCommandTest : public ::testing::Test {
 protected:
  void SetType(const std::string& type) {
    const auto path = model_.folder() / "config.json";
    json::Value config = json::Parse(ReadFileText(path)).value();
    config.Set("model_type", json::Value::String(type));
    std::filesystem::remove(path);  // a link into the golden data
    model_.folder().Write("config.json", json::DumpCompact(config));
  }

  static void ExpectRefused(const ProgramResult& result) {
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, AllOf(HasSubstr("config.json: model_type"), HasSubstr("deepseek_v4"),
                                  HasSubstr("deepseek_v9")));
  }

  TinyModel model_;
};

TEST_F(DialectCommandTest, WhatSpeaksWithAnUnknownFamilyIsRefused) {
  SetType("deepseek_v9");
  const std::string model = model_.path();
  ExpectRefused(RunDsv4({"chat", "--model", model}, "Hello\n"));
  ExpectRefused(RunDsv4({"generate", "--model", model, "--input-file", "-"}, "Hello\n"));
  ExpectRefused(RunDsv4({"encode", "--model", model}, kMessages));
  ExpectRefused(RunDsv4({"parse", "--model", model}, "Hello"));
}

TEST_F(DialectCommandTest, AnUnknownFamilyStillGoesOnWithPlainText) {
  const std::vector<std::string> command = {
      "generate", "--model",       model_.path(), "--input-file", "-",    "--max-new-tokens",
      "8",        "--temperature", "0",           "--jsonl",      "--raw"};
  const ProgramResult known = RunDsv4(command, "Hello\n");
  ASSERT_EQ(known.exit_code, 0) << known.err;
  SetType("deepseek_v9");
  const ProgramResult unknown = RunDsv4(command, "Hello\n");
  ASSERT_EQ(unknown.exit_code, 0) << unknown.err;
  const auto ids = [](const ProgramResult& result) {
    return json::DumpCompact(*json::Parse(result.out).value().Find("token_ids"));
  };
  EXPECT_EQ(ids(unknown), ids(known));
}

TEST_F(DialectCommandTest, PlainTextHasNoModeAndNoEffort) {
  for (const auto& [option, value] :
       {std::pair("--mode", "thinking"), std::pair("--effort", "max")}) {
    const ProgramResult result =
        RunDsv4({"generate", "--model", model_.path(), "--input-file", "-", "--raw", option, value},
                "Hi\n");
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("--raw"), HasSubstr(option)));
  }
}

TEST_F(DialectCommandTest, EncodingSpeaksAsTheModelDoes) {
  const ProgramResult by_model = RunDsv4({"encode", "--model", model_.path()}, kMessages);
  ASSERT_EQ(by_model.exit_code, 0) << by_model.err;
  const ProgramResult by_name = RunDsv4({"encode", "--dialect", "deepseek_v4"}, kMessages);
  EXPECT_EQ(by_model.out, by_name.out);
  EXPECT_THAT(by_model.out, Not(IsEmpty()));
  const ProgramResult unknown = RunDsv4({"encode", "--dialect", "deepseek_v9"}, kMessages);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("--dialect"), HasSubstr("deepseek_v4")));
}

}  // namespace
}  // namespace dsv4::testing
