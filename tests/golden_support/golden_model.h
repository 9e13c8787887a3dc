// Golden cases of whole models and single blocks (tests/golden/model, tests/golden/model-real):
// turned into trace cases, run on a model, compared by the rules of the README there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tests/support/compare.h"
#include "tools/trace_case.h"

namespace dsv4::test {

class GoldenModel {
 public:
  // `folder` holds cases.json, logits.safetensors and taps.safetensors; `checkpoint` the model.
  static Result<std::unique_ptr<GoldenModel>> Load(const std::filesystem::path& folder,
                                                   const std::filesystem::path& checkpoint,
                                                   Ops& ops);

  const json::Value& doc() const { return doc_; }
  model::Model& model() { return *model_; }

  // One logits case of cases.json by the strict rule.
  Verdict CheckLogits(const json::Value& entry);
  // Every block on golden input: all taps with a forced tolerance, choices as sets.
  std::vector<Verdict> CheckBlock(int32_t block);
  // The last layer's golden H through the head.
  Verdict CheckHead();
  // The taps of decode steps in layer 0, whose input is golden.
  std::vector<Verdict> CheckDecodeTaps();
  // The taps of one free prefill (model-real).
  std::vector<Verdict> CheckStoredTaps();
  // The MTP block alone on golden input (model-real).
  std::vector<Verdict> CheckMtpBlock();

 private:
  GoldenModel(json::Value doc, std::unique_ptr<model::Model> model, Checkpoint logits,
              Checkpoint taps, std::filesystem::path taps_file);

  std::vector<int32_t> Tokens(int64_t count, int64_t first = 0) const;
  Result<std::vector<tools::NamedTensor>> Run(const tools::TraceCase& trace);
  Result<FloatTensor> LogitRows(const json::Value& entry);
  void CheckTap(const std::vector<tools::NamedTensor>& mine, const std::string& name,
                const std::string& golden, const std::vector<int64_t>& rows,
                const json::Value* tolerance, std::vector<Verdict>* verdicts);
  void CheckChoices(const std::vector<tools::NamedTensor>& mine, const std::string& block,
                    const std::vector<int64_t>& rows, const json::Value* weight_tolerance,
                    std::vector<Verdict>* verdicts);

  json::Value doc_;
  std::unique_ptr<model::Model> model_;
  Checkpoint logits_;
  Checkpoint taps_;
  std::filesystem::path taps_file_;
};

}  // namespace dsv4::test
