// The tiny golden models: logits by the strict rule, every block on golden input, decode taps.
#include "tests/golden_support/golden_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"
#include "tools/kernel_choice.h"

namespace dsv4::test {
namespace {

const std::filesystem::path kRoot = std::filesystem::path(DSV4_TEST_DATA) / "model";

std::vector<std::string> Variants() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot)) {
    if (std::filesystem::exists(entry.path() / "cases.json")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Every (variant, what): a logits case by name, "block N", "head", "decode taps".
struct Check {
  std::string variant;
  std::string what;
};

std::vector<Check> Checks() {
  std::vector<Check> checks;
  for (const std::string& variant : Variants()) {
    std::ifstream file(kRoot / variant / "cases.json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const Result<json::Value> doc = json::Parse(text);
    if (!doc) {
      checks.push_back({variant, "unreadable"});
      continue;
    }
    for (const json::Value& entry : doc->Find("cases")->items()) {
      checks.push_back({variant, entry.Find("name")->as_string()});
    }
    int blocks = 0;
    for (const auto& [tap, rules] : doc->Find("taps")->Find("forced_tolerance")->members()) {
      if (tap.ends_with(".ffn_out")) ++blocks;
    }
    for (int i = 0; i < blocks; ++i) checks.push_back({variant, "block " + std::to_string(i)});
    checks.push_back({variant, "head"});
    checks.push_back({variant, "decode taps"});
  }
  return checks;
}

class GoldenModelTest : public ::testing::TestWithParam<Check> {};

std::vector<Verdict> Judge(GoldenModel& golden, const std::string& what) {
  if (what.starts_with("block ")) return golden.CheckBlock(std::stoi(what.substr(6)));
  if (what == "head") return {golden.CheckHead()};
  if (what == "decode taps") return golden.CheckDecodeTaps();
  std::vector<Verdict> verdicts;
  for (const json::Value& entry : golden.doc().Find("cases")->items()) {
    if (entry.Find("name")->as_string() == what) verdicts.push_back(golden.CheckLogits(entry));
  }
  return verdicts;
}

TEST_P(GoldenModelTest, AgreesWithTheReference) {
  const auto& [variant, what] = GetParam();
  for (const kernels::Kernels* const kernels : kernels::Runnable()) {
    const std::unique_ptr<Ops> ops = MakeCpuOps(*kernels, 2);
    const Result<std::unique_ptr<GoldenModel>> golden =
        GoldenModel::Load(kRoot / variant, kRoot / variant / "checkpoint", *ops);
    ASSERT_TRUE(golden) << golden.error().message;
    const std::vector<Verdict> verdicts = Judge(**golden, what);
    EXPECT_FALSE(verdicts.empty());
    for (size_t i = 0; i < verdicts.size(); ++i) {
      EXPECT_TRUE(verdicts[i].ok) << kernels->name << ": " << verdicts[i].text;
      // The measures of what held, for --gtest_output.
      RecordProperty(std::string(kernels->name) + "_measure_" + std::to_string(i),
                     verdicts[i].text);
    }
  }
}

std::string TestName(const ::testing::TestParamInfo<Check>& info) {
  std::string name = info.param.variant + "_" + info.param.what;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenModelTest, ::testing::ValuesIn(Checks()), TestName);

}  // namespace
}  // namespace dsv4::test
