#include "tests/golden_support/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <random>

#include "checkpoint/synth.h"
#include "ops/cpu_ops.h"
#include "tests/support/compare.h"
#include "tests/support/temp_folder.h"

namespace dsv4::testing {
namespace {

// Neighbours in this order run side by side: a short one beside a long one.
constexpr std::array<int64_t, 16> kLengths = {127, 4097, 128, 2048, 129, 513, 130, 512,
                                              255, 511,  256, 385,  257, 384, 1,   383};
constexpr size_t kTexts = 2;  // sequences are prefixes of this many texts by turns

}  // namespace

LoadedModel LoadModel(const std::filesystem::path& folder, int threads,
                      const kernels::Kernels& kernels) {
  LoadedModel loaded;
  loaded.ops = MakeCpuOps(kernels, threads);
  auto model = model::Model::Load(folder, *loaded.ops, {.max_rows = 1024});
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  if (model) loaded.model = std::move(*model);
  return loaded;
}

std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
  }
  return tokens;
}

tools::TraceCase CaseOf(std::vector<int32_t> tokens) {
  tools::TraceCase trace;
  trace.id = "x";
  trace.sequences = {std::move(tokens)};
  return trace;
}

// All tensors of the case; MTP logits too where the model has them.
std::vector<tools::NamedTensor> RunAll(model::Model& model, tools::TraceCase trace) {
  trace.mtp = model.config().num_mtp_layers > 0;
  auto answer = tools::RunTraceCase(model, trace);
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().message);
  return answer ? std::move(*answer) : std::vector<tools::NamedTensor>();
}

// `got` equals rows [0, n) of `want`, n as many as got has.
void ExpectPrefix(const tools::NamedTensor& got, const tools::NamedTensor& want,
                  const std::string& what) {
  ASSERT_EQ(got.shape[1], want.shape[1]);
  ASSERT_LE(got.shape[0], want.shape[0]);
  const auto verdict = test::SameBytes(
      got.data, std::span<const std::byte>(want.data).first(got.data.size()), sizeof(float));
  EXPECT_TRUE(verdict.ok) << what << ": " << verdict.text;
}

std::vector<const kernels::Kernels*> AllKernels() {
  const auto runnable = kernels::Runnable();
  return {runnable.begin(), runnable.end()};
}

// As a part of a test's name.
std::string Letters(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

void ExpectIdentityMatrix(const std::string& preset, const kernels::Kernels& kernels,
                          std::span<const BatchAndChunk> pairs) {
  const std::vector<SynthSetting> settings = {{"vocab_size", "512"}};
  const auto synth = SynthModel::Make(preset, settings);
  ASSERT_TRUE(synth) << synth.error().message;
  const TempFolder folder;
  const Status written = WriteSynth(*synth, {.out = folder / "model"});
  ASSERT_TRUE(written) << written.error().message;
  const LoadedModel loaded = LoadModel(folder / "model", 2, kernels);
  ASSERT_NE(loaded.model, nullptr);

  const int64_t longest = *std::max_element(kLengths.begin(), kLengths.end());
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::vector<tools::NamedTensor>> whole;
  for (uint32_t t = 0; t < kTexts; ++t) {
    texts.push_back(RandomTokens(longest, loaded.model->config().vocab_size, 20 + t));
    whole.push_back(RunAll(*loaded.model, CaseOf(texts.back())));
  }
  for (const auto& [batch, chunk] : pairs) {
    for (size_t first = 0; first < kLengths.size(); first += static_cast<size_t>(batch)) {
      const size_t end = std::min(kLengths.size(), first + static_cast<size_t>(batch));
      tools::TraceCase trace;
      trace.id = "x";
      trace.batch = true;
      for (size_t i = first; i < end; ++i) {
        const std::vector<int32_t>& text = texts[i % kTexts];
        trace.sequences.emplace_back(text.begin(), text.begin() + kLengths[i]);
      }
      trace.chunks.assign(static_cast<size_t>((longest + chunk - 1) / chunk), chunk);
      const std::vector<tools::NamedTensor> got = RunAll(*loaded.model, trace);
      const size_t tensors = got.size() / (end - first);
      for (size_t i = first; i < end; ++i) {
        for (size_t t = 0; t < tensors; ++t) {
          ExpectPrefix(got[(i - first) * tensors + t], whole[i % kTexts][t],
                       "batch " + std::to_string(batch) + ", chunk " + std::to_string(chunk) +
                           ", length " + std::to_string(kLengths[i]));
        }
      }
    }
  }
}

}  // namespace dsv4::testing
