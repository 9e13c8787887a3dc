#include "tests/golden_support/real_checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "checkpoint/synth.h"
#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"
#include "tests/golden_support/golden_model.h"

namespace dsv4::test {
namespace {

Status MakeCheckpoint(const json::Value& synth, const std::filesystem::path& out) {
  std::vector<SynthSetting> settings;
  for (const auto& [key, value] : synth.Find("set")->members()) {
    settings.emplace_back(key, json::DumpCompact(value));
  }
  DSV4_ASSIGN(const SynthModel model,
              SynthModel::Make(synth.Find("preset")->as_string(), settings));
  SynthOptions options;
  options.out = out;
  options.seed = static_cast<uint64_t>(*synth.Find("seed")->to_int64());
  return WriteSynth(model, options);
}

void Expect(const std::vector<Verdict>& verdicts) {
  EXPECT_FALSE(verdicts.empty());
  for (const Verdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.ok) << verdict.text;
    // The measures of what held, for --gtest_output.
    ::testing::Test::RecordProperty(verdict.text.substr(0, verdict.text.find(':')), verdict.text);
  }
}

}  // namespace

void CheckRealVariant(const std::string& variant, const std::filesystem::path& checkpoint) {
  const auto folder = std::filesystem::path(DSV4_TEST_DATA) / "model-real" / variant;
  std::ifstream file(folder / "cases.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Result<json::Value> doc = json::Parse(text);
  ASSERT_TRUE(doc) << doc.error().message;
  const Status made = MakeCheckpoint(*doc->Find("synth"), checkpoint);
  ASSERT_TRUE(made) << made.error().message;
  const Result<const kernels::Kernels*> kernels = kernels::Choose("");
  ASSERT_TRUE(kernels) << kernels.error().message;
  const std::unique_ptr<Ops> ops = MakeCpuOps(**kernels, 2);
  const auto golden = GoldenModel::Load(folder, checkpoint, *ops);
  ASSERT_TRUE(golden) << golden.error().message;
  for (const json::Value& entry : (*golden)->doc().Find("cases")->items()) {
    Verdict verdict = (*golden)->CheckLogits(entry);
    verdict.text = entry.Find("name")->as_string() + ": " + verdict.text;
    Expect({verdict});
  }
  Expect((*golden)->CheckStoredTaps());
  if ((*golden)->doc().Find("mtp_block") != nullptr) Expect((*golden)->CheckMtpBlock());
}

}  // namespace dsv4::test
