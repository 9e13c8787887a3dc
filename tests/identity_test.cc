// The promise of exactness, bit for bit: a row's logits depend on its tokens alone, not on how the
// prompt was cut, on the company in the batch, on threads, or on a restored snapshot.
#include "tests/golden_support/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace dsv4 {
namespace {

using testing::AllKernels;
using testing::CaseOf;
using testing::ExpectPrefix;
using testing::Letters;
using testing::LoadedModel;
using testing::LoadModel;
using testing::RandomTokens;
using testing::RunAll;
using tools::NamedTensor;
using tools::TraceCase;

constexpr int64_t kLength = 300;

LoadedModel Load(const std::string& variant, int threads, const kernels::Kernels& kernels) {
  return LoadModel(std::filesystem::path(DSV4_TEST_DATA) / "model" / variant / "checkpoint",
                   threads, kernels);
}

class IdentityTest
    : public ::testing::TestWithParam<std::tuple<std::string, const kernels::Kernels*>> {
 protected:
  void SetUp() override {
    loaded_ = Load(std::get<0>(GetParam()), 2, *std::get<1>(GetParam()));
    ASSERT_NE(loaded_.model, nullptr);
    tokens_ = RandomTokens(kLength, loaded_.model->config().vocab_size, 1);
    whole_ = RunAll(*loaded_.model, CaseOf(tokens_));
  }

  void ExpectSame(const std::vector<NamedTensor>& got, const std::string& what) {
    ASSERT_EQ(got.size(), whole_.size()) << what;
    for (size_t i = 0; i < got.size(); ++i) ExpectPrefix(got[i], whole_[i], what);
  }

  LoadedModel loaded_;
  std::vector<int32_t> tokens_;
  std::vector<NamedTensor> whole_;  // everything of one prefill over all tokens
};

TEST_P(IdentityTest, TokenByTokenEqualsOneGo) {
  TraceCase trace = CaseOf(tokens_);
  trace.prefill = 1;
  ExpectSame(RunAll(*loaded_.model, trace), "token by token");
}

TEST_P(IdentityTest, EveryChunkingEqualsOneGo) {
  std::mt19937 random(2);
  for (const int64_t size : {2, 3, 7, 16, 64, 127, 129}) {
    TraceCase trace = CaseOf(tokens_);
    trace.chunks.assign(static_cast<size_t>(kLength / size), size);
    ExpectSame(RunAll(*loaded_.model, trace), "chunks of " + std::to_string(size));
  }
  for (int round = 0; round < 4; ++round) {
    TraceCase trace = CaseOf(tokens_);
    std::string what = "chunks";
    for (int64_t left = kLength; left > 0;) {
      const int64_t size = std::min<int64_t>(left, 1 + random() % 90);
      trace.chunks.push_back(size);
      what += " " + std::to_string(size);
      left -= size;
    }
    ExpectSame(RunAll(*loaded_.model, trace), what);
  }
}

TEST_P(IdentityTest, EveryLengthIsAPrefix) {
  for (int64_t length = 1; length <= kLength; ++length) {
    // All lengths round the borders of windows and pages, and enough others for those of entries.
    const int64_t near = std::min({length % 128, 128 - length % 128, length % 16 + 2});
    if (near > 2 && length % 19 != 0 && length > 9) continue;
    ExpectSame(RunAll(*loaded_.model, CaseOf({tokens_.begin(), tokens_.begin() + length})),
               "length " + std::to_string(length));
  }
}

TEST_P(IdentityTest, CompanyInTheBatchChangesNothing) {
  const int64_t vocab = loaded_.model->config().vocab_size;
  TraceCase batch;
  batch.id = "x";
  batch.batch = true;
  batch.prefill = 60;
  for (const int64_t length : {90, 1, 4, 127, 60, 133, 17}) {
    batch.sequences.push_back(RandomTokens(length, vocab, static_cast<uint32_t>(length)));
  }
  const std::vector<NamedTensor> together = RunAll(*loaded_.model, batch);
  const size_t per_sequence = together.size() / batch.sequences.size();
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const std::vector<NamedTensor> alone = RunAll(*loaded_.model, CaseOf(batch.sequences[s]));
    for (size_t i = 0; i < per_sequence; ++i) {
      ExpectPrefix(together[s * per_sequence + i], alone[i], "sequence " + std::to_string(s));
      EXPECT_EQ(together[s * per_sequence + i].shape, alone[i].shape);
    }
  }
}

TEST_P(IdentityTest, ThreadsChangeNothing) {
  for (const int threads : {1, 3, 7}) {
    LoadedModel other = Load(std::get<0>(GetParam()), threads, *std::get<1>(GetParam()));
    TraceCase trace = CaseOf({tokens_.begin(), tokens_.begin() + 140});
    trace.prefill = 130;
    ExpectSame(RunAll(*other.model, trace), std::to_string(threads) + " threads");
  }
}

TEST_P(IdentityTest, ARestoredSnapshotContinuesTheSame) {
  model::Model& model = *loaded_.model;
  auto cache = model::KvCache::Create(model.config(), 2, 6);
  ASSERT_TRUE(cache) << cache.error().message;
  const std::vector<int32_t> pages = {0, 1, 2};
  const std::vector<int32_t> other_pages = {3, 4, 5};
  const auto feed = [&](int32_t slot, const std::vector<int32_t>& own_pages,
                        std::span<const int32_t> tokens, int64_t start) {
    const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
    std::vector<float> logits(static_cast<size_t>(model.config().vocab_size));
    const model::SequenceRun run{slot, start, last + 1, own_pages};
    model.Forward({tokens, {&run, 1}, {&last, 1}}, *cache, {logits.data(), nullptr, nullptr});
    return logits;
  };
  const std::span<const int32_t> all = tokens_;
  for (const int64_t cut : {3, 4, 126, 127, 128, 129, 200}) {
    feed(0, pages, all.first(static_cast<size_t>(cut)), 0);
    const std::span<std::byte> slot = cache->slot(0);
    const std::vector<std::byte> snapshot(slot.begin(), slot.end());
    const auto rest = all.subspan(static_cast<size_t>(cut), 70);
    const std::vector<float> first = feed(0, pages, rest, cut);
    // Another sequence in the same slot, and another end in the same pages, then back to the cut.
    feed(0, other_pages, all.first(150), 0);
    std::memcpy(slot.data(), snapshot.data(), snapshot.size());
    feed(0, pages, RandomTokens(60, model.config().vocab_size, 9), cut);
    std::memcpy(slot.data(), snapshot.data(), snapshot.size());
    const std::vector<float> again = feed(0, pages, rest, cut);
    EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(float)), 0)
        << "cut " << cut;
  }
}

std::string TestName(const ::testing::TestParamInfo<IdentityTest::ParamType>& param) {
  return Letters(std::get<0>(param.param) + "_" + std::get<1>(param.param)->name);
}

INSTANTIATE_TEST_SUITE_P(Tiny, IdentityTest,
                         ::testing::Combine(::testing::Values("flash-tiny", "pro-tiny",
                                                              "bf16-tiny"),
                                            ::testing::ValuesIn(AllKernels())),
                         TestName);

}  // namespace
}  // namespace dsv4
