// The last positions of a context of a million tokens, from a state that stands for all before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/synth.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "numeric/bf16.h"
#include "ops/cpu_ops.h"
#include "tests/support/compare.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using model::KvCache;
using model::KvLayout;
using model::SequenceRun;

constexpr int64_t kLimit = 1048576;
constexpr int64_t kFilled = kLimit - 16;
constexpr int32_t kNumPages = 8192;  // of the whole context
constexpr int32_t kNumSlots = 2;

// A small model with the published rotary parameters and a block of each kind: window, CSA, HCA.
const std::filesystem::path& ModelFolder() {
  static const testing::TempFolder folder;
  static const std::filesystem::path path = [] {
    const std::vector<SynthSetting> settings = {{"vocab_size", "512"},
                                                {"num_hidden_layers", "3"},
                                                {"num_hash_layers", "1"},
                                                {"num_nextn_predict_layers", "0"},
                                                {"compress_ratios", "[0,4,128]"}};
    const auto synth = SynthModel::Make("tiny-flash", settings);
    EXPECT_TRUE(synth) << synth.error().message;
    const Status status = WriteSynth(*synth, {.out = folder / "model"});
    EXPECT_TRUE(status) << status.error().message;
    return folder / "model";
  }();
  return path;
}

// Keeps one tap as floats.
class KeptTap : public model::TapSink {
 public:
  explicit KeptTap(std::string name) : name_(std::move(name)) {}
  bool Wants(std::string_view name) const override { return name == name_; }
  void Tap(std::string_view, DType, std::span<const int64_t> shape, const void* data) override {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    const auto* elements = static_cast<const Bf16*>(data);
    values.clear();
    for (int64_t i = 0; i < count; ++i) values.push_back(ToFloat(elements[i]));
  }
  std::vector<float> values;

 private:
  std::string name_;
};

class FarPositions : public ::testing::TestWithParam<const kernels::Kernels*> {
 protected:
  void SetUp() override {
    auto model = model::Model::Load(ModelFolder(), *ops_, {.max_rows = 64});
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    ASSERT_EQ(config().max_positions, kLimit);
    auto cache = KvCache::Create(config(), kNumSlots, kNumSlots * kNumPages);
    ASSERT_TRUE(cache) << cache.error().message;
    cache_ = std::make_unique<KvCache>(std::move(*cache));
    for (int32_t slot = 0; slot < kNumSlots; ++slot) {
      // The second sequence's pages lie in falling order.
      std::vector<int32_t> pages(kNumPages);
      std::iota(pages.begin(), pages.end(), slot * kNumPages);
      if (slot == 1) std::reverse(pages.begin(), pages.end());
      pages_.push_back(std::move(pages));
    }
  }

  const model::ModelConfig& config() const { return model_->config(); }
  void Fill(int32_t slot, int64_t num_tokens, uint64_t seed) {
    const Status status =
        cache_->FillSynthetic(slot, pages_[static_cast<size_t>(slot)], num_tokens, seed);
    ASSERT_TRUE(status) << status.error().message;
  }
  SequenceRun RunAt(int32_t slot, int64_t start, int32_t num_rows) const {
    return {slot, start, num_rows, pages_[static_cast<size_t>(slot)]};
  }
  static int32_t TokenAt(int64_t position) { return static_cast<int32_t>(position * 7 % 512); }

  // The logits of positions [start, start + num_rows).
  std::vector<float> Forward(int32_t slot, int64_t start, int32_t num_rows) {
    std::vector<int32_t> tokens;
    std::vector<int32_t> rows(static_cast<size_t>(num_rows));
    for (int64_t p = start; p < start + num_rows; ++p) tokens.push_back(TokenAt(p));
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> logits(static_cast<size_t>(num_rows * config().vocab_size));
    const SequenceRun run = RunAt(slot, start, num_rows);
    model_->Forward({tokens, {&run, 1}, rows}, *cache_, {logits.data(), nullptr, nullptr});
    return logits;
  }
  // A tap of block `block` alone for the token of the last position, standing at `position`.
  std::vector<float> TapAt(int32_t block, const std::string& tap, int32_t slot, int64_t position) {
    const int32_t token = TokenAt(kLimit - 1);
    std::vector<Bf16> hidden = model_->EmbedRows({&token, 1});
    KeptTap kept("L" + std::to_string(block) + "." + tap);
    const SequenceRun run = RunAt(slot, position, 1);
    model_->ForwardBlock(block, {{&token, 1}, {&run, 1}, {}}, hidden.data(), *cache_, &kept);
    return kept.values;
  }

  std::unique_ptr<Ops> ops_ = MakeCpuOps(*GetParam(), 2);
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::vector<int32_t>> pages_;  // by slot
};

TEST_P(FarPositions, TokenByTokenEqualsOneGoUpToTheLastPosition) {
  Fill(0, kFilled, 5);
  Fill(1, kFilled, 5);
  const std::vector<float> whole = Forward(0, kFilled, 16);
  std::vector<float> single;
  for (int64_t p = kFilled; p < kLimit; ++p) {
    const std::vector<float> logits = Forward(1, p, 1);
    single.insert(single.end(), logits.begin(), logits.end());
  }
  EXPECT_TRUE(test::SameElements<float>(single, whole));
  for (const float logit : whole) ASSERT_TRUE(std::isfinite(logit));
  EXPECT_TRUE(test::SameElements<std::byte>(cache_->slot(0), cache_->slot(1)));
  for (const size_t page : {size_t{0}, size_t{4000}, size_t{8191}}) {
    EXPECT_TRUE(
        test::SameElements<std::byte>(cache_->page(pages_[0][page]), cache_->page(pages_[1][page])))
        << "page " << page;
  }
}

// The far rows are q and kv of position 0, where nothing is turned, turned by the published angles.
TEST_P(FarPositions, RowsAreTurnedByTheAngleOfTheirPosition) {
  const Checkpoint golden =
      Checkpoint::Open(DSV4_TEST_DATA "/model/kernels/rope.safetensors").value();
  constexpr int64_t kHalf = 32;
  constexpr int64_t kGoldenRow = 8;  // position 1048575
  for (const int32_t block : {0, 1, 2}) {
    const std::string kind = block == 0 ? "window." : "compressed.";
    const test::FloatTensor cos = test::LoadFloats(golden, kind + "cos").value();
    const test::FloatTensor sin = test::LoadFloats(golden, kind + "sin").value();
    for (const std::string tap : {"q", "kv"}) {
      Fill(0, kLimit - 1, 5);
      const std::vector<float> far = TapAt(block, tap, 0, kLimit - 1);
      const std::vector<float> near = TapAt(block, tap, 1, 0);
      std::vector<float> want = near;
      const int64_t width = config().head_dim;
      for (size_t at = 0; at < near.size(); at += static_cast<size_t>(width)) {
        for (int64_t i = 0; i < kHalf; ++i) {
          const size_t x = at + static_cast<size_t>(width - 2 * kHalf + 2 * i);
          const float c = cos.values[static_cast<size_t>(kGoldenRow * kHalf + i)];
          const float s = sin.values[static_cast<size_t>(kGoldenRow * kHalf + i)];
          want[x] = near[x] * c - near[x + 1] * s;
          want[x + 1] = near[x] * s + near[x + 1] * c;
        }
      }
      const std::vector<int64_t> shape = {static_cast<int64_t>(want.size())};
      ASSERT_EQ(far.size(), want.size());
      EXPECT_TRUE(test::WithinBf16Steps({far, shape}, {want, shape}, 1.0))
          << "block " << block << " " << tap;
    }
  }
}

TEST_P(FarPositions, ThePositionAfterTheLastIsRefusedWithTheLimit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Fill(0, kLimit, 5);
  EXPECT_DEATH(Forward(0, kLimit, 1), "position 1048576, beyond the last of the model's 1048576");
  EXPECT_DEATH(Forward(0, kLimit - 3, 4), "position 1048576");
  const Status status = cache_->FillSynthetic(0, pages_[0], kLimit + 1, 5);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "a context of 1048577 tokens is more than the model's 1048576");
}

// What the model would have packed itself: unpacking and packing again changes no byte.
TEST_P(FarPositions, SyntheticRowsAreRowsAsTheModelPacksThem) {
  const int64_t tokens = 3000;
  Fill(0, tokens, 5);
  const KvLayout& layout = cache_->layout();
  const KvRowLayout row = layout.row();
  const IndexRowLayout key = layout.index_row();
  const auto check_rows = [&](const std::byte* packed, int64_t count, const char* what) {
    std::vector<Bf16> values(static_cast<size_t>(count * row.width));
    std::vector<std::byte> again(static_cast<size_t>(count * row.row_bytes()));
    ops_->UnpackKvRows(packed, count, row, values.data());
    for (const Bf16 value : values) ASSERT_LE(std::fabs(ToFloat(value)), 8.0f) << what;
    ops_->PackKvRows(values.data(), count, row, again.data());
    EXPECT_TRUE(test::SameElements<std::byte>(again, {packed, again.size()})) << what;
  };
  for (int32_t i = 0; i < layout.num_blocks(); ++i) {
    const KvLayout::Block& block = layout.block(i);
    check_rows(cache_->slot(0).data() + block.window_offset, layout.window_size(), "window");
    if (block.ratio == 0) continue;
    const std::byte* page = cache_->page(pages_[0][5]).data();
    const int64_t entries = KvLayout::kPageTokens / block.ratio;
    check_rows(page + block.entries_offset, entries, "entries");
    if (block.ratio != 4) continue;
    const std::byte* keys = page + block.index_entries_offset;
    std::vector<Bf16> values(static_cast<size_t>(entries * key.width));
    std::vector<std::byte> again(static_cast<size_t>(entries * key.row_bytes()));
    ops_->UnpackIndexRows(keys, entries, key, values.data());
    ops_->PackIndexRows(values.data(), entries, key, again.data());
    EXPECT_TRUE(test::SameElements<std::byte>(again, {keys, again.size()}));
    EXPECT_NE(std::memcmp(keys, keys + key.row_bytes(), static_cast<size_t>(key.row_bytes())), 0);
    const auto* carried =
        reinterpret_cast<const float*>(cache_->slot(0).data() + block.carry.offset);
    for (int64_t j = 0; j < block.carry.bytes() / 4; ++j) ASSERT_LE(std::fabs(carried[j]), 2.0f);
  }
}

// The same for the same seed and position wherever it lies and however much is filled; another seed
// is other contents.
TEST_P(FarPositions, SyntheticContentsDependOnSeedAndPositionAlone) {
  Fill(0, 1000, 5);
  Fill(1, 1400, 5);
  for (size_t page = 0; page < 7; ++page) {
    EXPECT_TRUE(test::SameElements<std::byte>(cache_->page(pages_[0][page]),
                                              cache_->page(pages_[1][page])));
  }
  const std::vector<float> before = Forward(0, 1000, 3);
  Fill(0, 1000, 5);
  EXPECT_TRUE(test::SameElements<float>(Forward(0, 1000, 3), before));
  Fill(0, 1000, 6);
  EXPECT_FALSE(test::SameElements<float>(Forward(0, 1000, 3), before));
}

// The scratch of a long context is bounded by what is used at once, not by rows times positions.
TEST(FarPositionsOfFlash, ScratchIsSmallBesideTheContext) {
  const auto synth = SynthModel::Make("flash", {});
  ASSERT_TRUE(synth) << synth.error().message;
  const auto config = model::ParseConfig(json::Parse(synth->config_json()).value());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->max_positions, kLimit);
  EXPECT_LT(model::Model::WorkspaceBytes(*config, 512, 64), int64_t{2} << 30);
  EXPECT_LT(model::Model::WorkspaceBytes(*config, 1, 1), int64_t{128} << 20);
}

std::string TestName(const ::testing::TestParamInfo<const kernels::Kernels*>& info) {
  return info.param->name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, FarPositions, ::testing::ValuesIn(kernels::Runnable()), TestName);

}  // namespace
}  // namespace dsv4
