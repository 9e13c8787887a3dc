#include "tools/bench_check.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"
#include "model/model.h"
#include "ops/cpu_ops.h"
#include "tests/support/compare.h"

namespace dsv4::tools {
namespace {

constexpr int32_t kFew = 3;
constexpr int32_t kMany = 20;
constexpr uint64_t kSeed = 11;
// Sets round differently, which 8-bit activations enlarge to 0.03 at Flash's widths; where two
// experts or entries are nearly as good they may also choose another.
constexpr double kMostError = 0.1;

// A few layers of a model on operations of its own.
class ShortModel {
 public:
  static Result<ShortModel> Load(const std::filesystem::path& folder, Ops& ops) {
    ShortModel result;
    DSV4_ASSIGN(result.model_, model::Model::Load(folder, ops, {.max_rows = kMany}));
    const model::ModelConfig& config = result.model_->config();
    // More entries than the indexer chooses, where the model has so many positions.
    result.start_ = std::clamp<int64_t>(4 * (int64_t{config.index_topk} + 40), 0,
                                        std::max<int64_t>(config.max_positions - kMany, 0));
    result.pages_.resize(static_cast<size_t>(model::KvLayout::PagesFor(result.start_ + kMany)));
    std::iota(result.pages_.begin(), result.pages_.end(), 0);
    DSV4_ASSIGN(model::KvCache cache,
                model::KvCache::Create(config, 1, static_cast<int32_t>(result.pages_.size())));
    result.cache_ = std::make_unique<model::KvCache>(std::move(cache));
    for (const int32_t ratio : {0, 4, 128}) {
      const auto& ratios = config.compress_ratios;
      const auto layer = std::find(ratios.begin(), ratios.begin() + config.num_layers, ratio);
      if (layer == ratios.begin() + config.num_layers) continue;
      result.layers_.push_back(static_cast<int32_t>(layer - ratios.begin()));
    }
    return result;
  }

  // H of the first kFew of `num_rows` tokens, `at_once` of them in a batch.
  Result<std::vector<Bf16>> Run(int32_t num_rows, int32_t at_once) {
    DSV4_TRY(cache_->FillSynthetic(0, pages_, start_, kSeed));
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < num_rows; ++i) {
      tokens.push_back(static_cast<int32_t>((i * 7919 + 17) % model_->config().vocab_size));
    }
    std::vector<Bf16> h = model_->EmbedRows(tokens);
    const size_t row = h.size() / tokens.size();
    for (const int32_t layer : layers_) {
      for (int32_t i = 0; i < num_rows; i += at_once) {
        const auto rows =
            std::span(tokens).subspan(static_cast<size_t>(i), static_cast<size_t>(at_once));
        const model::SequenceRun run{0, start_ + i, at_once, pages_};
        model_->ForwardBlock(layer, {rows, {&run, 1}, {}}, h.data() + static_cast<size_t>(i) * row,
                             *cache_, nullptr);
      }
    }
    h.resize(row * kFew);
    return h;
  }
  std::vector<float> Logits(const std::vector<Bf16>& h) {
    std::vector<float> logits(static_cast<size_t>(kFew * model_->config().vocab_size));
    model_->ForwardHead(h.data(), kFew, logits.data());
    return logits;
  }

 private:
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::KvCache> cache_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> layers_;
  int64_t start_ = 0;
};

}  // namespace

Result<AnswerCheck> CheckAnswers(const std::filesystem::path& folder, Ops& ops) {
  DSV4_ASSIGN(ShortModel model, ShortModel::Load(folder, ops));
  DSV4_ASSIGN(const std::vector<Bf16> few, model.Run(kFew, kFew));
  for (const auto& [num_rows, at_once] : {std::pair{kFew, 1}, {kMany, kMany}}) {
    DSV4_ASSIGN(const std::vector<Bf16> other, model.Run(num_rows, at_once));
    const test::Verdict same = test::SameElements<Bf16>(other, few);
    if (!same) {
      return Failed("{}: rows in batches of {} differ from those in batches of {}: {}",
                    ops.kernels_name(), at_once, kFew, same.text);
    }
  }
  const std::vector<float> got = model.Logits(few);

  DSV4_ASSIGN(const kernels::Kernels* const ref, kernels::Choose("ref"));
  const std::unique_ptr<Ops> ref_ops = MakeCpuOps(*ref, ops.num_threads());
  DSV4_ASSIGN(ShortModel ref_model, ShortModel::Load(folder, *ref_ops));
  DSV4_ASSIGN(const std::vector<Bf16> ref_few, ref_model.Run(kFew, kFew));
  const std::vector<float> want = ref_model.Logits(ref_few);

  const std::vector<int64_t> shape = {kFew, static_cast<int64_t>(got.size()) / kFew};
  DSV4_ASSIGN(const test::RowErrors errors, test::MeasureRows({got, shape}, {want, shape}));
  if (errors.median > kMostError) {
    return Failed(
        "{}: the logits are not those of ref: expected a median error of at most {}, found {}",
        ops.kernels_name(), kMostError, test::Text(errors, shape));
  }
  return AnswerCheck{errors.median};
}

}  // namespace dsv4::tools
