// What the tests of bit identity share: running cases and comparing rows of their tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tools/trace_case.h"

namespace dsv4::testing {

struct LoadedModel {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<model::Model> model;  // null where loading failed; the failure is on record
};

LoadedModel LoadModel(const std::filesystem::path& folder, int threads,
                      const kernels::Kernels& kernels);

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab, uint32_t seed);
tools::TraceCase CaseOf(std::vector<int32_t> tokens);
// All tensors of the case; MTP logits too where the model has them.
std::vector<tools::NamedTensor> RunAll(model::Model& model, tools::TraceCase trace);
// `got` equals rows [0, n) of `want`, n as many as got has.
void ExpectPrefix(const tools::NamedTensor& got, const tools::NamedTensor& want,
                  const std::string& what);

// Every set that this processor runs.
std::vector<const kernels::Kernels*> AllKernels();
// As a part of a test's name.
std::string Letters(std::string name);

struct BatchAndChunk {
  int64_t batch = 0;  // sequences side by side
  int64_t chunk = 0;  // tokens of each a forward
};
// Sequences of every length round the borders of the published windows and entries (127 to 4097)
// give, for each pair, what a prefill in one go gives. `preset` as for SynthModel::Make.
void ExpectIdentityMatrix(const std::string& preset, const kernels::Kernels& kernels,
                          std::span<const BatchAndChunk> pairs);

}  // namespace dsv4::testing
