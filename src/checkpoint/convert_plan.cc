#include "checkpoint/convert_plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/fp4_to_fp8.h"
#include "checkpoint/shard.h"

namespace dsv4 {
namespace {

using Action = ConvertedTensor::Action;

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kScale = ".scale";

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Planner {
 public:
  Planner(const TensorsByName& tensors, const ConvertRules& rules, int rank)
      : tensors_(tensors), rules_(rules), rank_(rank) {}

  // nullopt where this rank has nothing of the tensor.
  Result<std::optional<ConvertedTensor>> Plan(const TensorInfo& source) const {
    const std::string name = CanonicalName(source.name);
    if (IsIgnoredTensor(name)) return std::nullopt;
    auto planned = PlanNamed(name, source);
    if (!planned) return Within("tensor " + source.name, std::move(planned).error());
    return planned;
  }

 private:
  Result<std::optional<ConvertedTensor>> PlanNamed(const std::string& name,
                                                   const TensorInfo& source) const {
    ConvertedTensor tensor;
    tensor.info = {name, source.dtype, source.shape, {}, 0};
    tensor.source = &source;
    const ShardAxis axis = ShardAxisOf(name);
    if (axis == ShardAxis::kExperts) return PlanExpert(std::move(tensor));
    if (name.ends_with(".ffn.gate.weight") &&
        (source.shape.empty() || source.shape[0] != rules_.num_experts)) {
      return BadInput("expected {} experts, found {}", rules_.num_experts, source.TypeText());
    }
    if (name.ends_with(".attn.wo_a.scale")) {
      const TensorInfo* const weight = Partner(name, kScale, kWeight);
      if (weight != nullptr && weight->dtype == DType::kF8E4M3) return std::nullopt;
    }
    if (name.ends_with(".attn.wo_a.weight") && source.dtype == DType::kF8E4M3) {
      DSV4_TRY(PlanDequantize(&tensor));
    }
    if (axis == ShardAxis::kRows) DSV4_TRY(Cut(0, rules_.block_rows, &tensor));
    if (axis == ShardAxis::kColumns) DSV4_TRY(Cut(1, rules_.block_cols, &tensor));
    return tensor;
  }

  // "….weight" for "….scale" or the other way round; null where the checkpoint lacks it.
  const TensorInfo* Partner(std::string_view name, std::string_view suffix,
                            std::string_view other) const {
    if (!name.ends_with(suffix)) return nullptr;
    name.remove_suffix(suffix.size());
    const auto found = tensors_.find(std::string(name) + std::string(other));
    return found == tensors_.end() ? nullptr : found->second;
  }

  static Status CheckScale(const TensorInfo* scale, int64_t rows, int64_t cols, bool only_e8m0) {
    if (scale == nullptr) return BadInput("its scale is missing");
    const bool type_fits =
        scale->dtype == DType::kF8E8M0 || (!only_e8m0 && scale->dtype == DType::kF32);
    if (type_fits && scale->shape == std::vector{rows, cols}) return {};
    return BadInput("its scale: expected {} [{}, {}], found {}",
                    only_e8m0 ? "F8_E8M0" : "F8_E8M0 or F32", rows, cols, scale->TypeText());
  }

  Status PlanDequantize(ConvertedTensor* tensor) const {
    const std::vector<int64_t>& shape = tensor->source->shape;
    if (shape.size() != 2)
      return BadInput("expected a matrix, found {}", tensor->source->TypeText());
    tensor->scale = Partner(tensor->info.name, kWeight, kScale);
    DSV4_TRY(CheckScale(tensor->scale, CeilDiv(shape[0], rules_.block_rows),
                        CeilDiv(shape[1], rules_.block_cols), false));
    tensor->action = Action::kDequantize;
    tensor->info.dtype = DType::kBF16;
    return {};
  }

  // The rank's part along the axis. A scale's axis counts blocks; a weight that has scales must be
  // cut between blocks.
  Status Cut(size_t axis, int64_t block, ConvertedTensor* tensor) const {
    if (tensor->info.shape.size() <= axis) {
      return BadInput("expected at least {} axes, found {}", axis + 1, tensor->source->TypeText());
    }
    int64_t& extent = tensor->info.shape[axis];
    DSV4_ASSIGN(const ShardRange range, ShardRangeOf(extent, rank_, rules_.world));
    const bool scaled = Partner(tensor->info.name, kWeight, kScale) != nullptr;
    if (rules_.world > 1 && scaled && (range.end - range.begin) % block != 0) {
      return UsageError("{} over {} ranks gives {}, which cuts a block of {} under one scale",
                        extent, rules_.world, range.end - range.begin, block);
    }
    extent = range.end - range.begin;
    (axis == 0 ? tensor->first_row : tensor->first_col) = range.begin;
    return {};
  }

  Result<std::optional<ConvertedTensor>> PlanExpert(ConvertedTensor tensor) const {
    const std::string& name = tensor.info.name;
    const int64_t expert = *ExpertOf(name);
    if (expert >= rules_.num_experts) {
      return BadInput("expected experts 0 to {}", rules_.num_experts - 1);
    }
    DSV4_ASSIGN(const ShardRange range, ShardRangeOf(rules_.num_experts, rank_, rules_.world));
    if (expert < range.begin || expert >= range.end) return std::nullopt;
    if (IsFp4(*tensor.source) && name.ends_with(kWeight)) {
      DSV4_TRY(PlanFp4Weight(&tensor));
    } else if (rules_.fp8_experts && name.ends_with(kWeight)) {
      return BadInput("expected FP4 to make FP8 of, found {}{}", tensor.source->TypeText(),
                      tensor.source->dtype == DType::kF8E4M3
                          ? "; the experts are FP8 already and need no --expert-dtype"
                          : "");
    } else if (const TensorInfo* const weight = Partner(name, kScale, kWeight);
               rules_.fp8_experts && weight != nullptr && IsFp4(*weight)) {
      tensor.action = Action::kFp8Scales;
      tensor.weight = weight;
      const int64_t cols = Fp4Columns(*weight);
      DSV4_TRY(CheckScale(tensor.source, weight->shape[0], cols / kFp4Group, true));
      tensor.info.shape = {CeilDiv(weight->shape[0], kFp8Tile), CeilDiv(cols, kFp8Tile)};
    }
    return tensor;
  }

  static bool IsFp4(const TensorInfo& weight) {
    return (weight.dtype == DType::kI8 || weight.dtype == DType::kF4) && weight.shape.size() == 2;
  }
  static int64_t Fp4Columns(const TensorInfo& weight) {
    return weight.dtype == DType::kF4 ? weight.shape[1] : 2 * weight.shape[1];
  }

  Status PlanFp4Weight(ConvertedTensor* tensor) const {
    const int64_t rows = tensor->source->shape[0];
    const int64_t cols = Fp4Columns(*tensor->source);
    if (cols % kFp4Group != 0) {
      return BadInput("expected columns in groups of {}, found {}", kFp4Group, cols);
    }
    tensor->scale = Partner(tensor->info.name, kWeight, kScale);
    DSV4_TRY(CheckScale(tensor->scale, rows, cols / kFp4Group, true));
    tensor->info.shape = {rows, cols};
    tensor->info.dtype = rules_.fp8_experts ? DType::kF8E4M3 : DType::kF4;
    if (rules_.fp8_experts) tensor->action = Action::kFp8Codes;
    return {};
  }

  const TensorsByName& tensors_;
  const ConvertRules& rules_;
  const int rank_;
};

}  // namespace

Result<std::vector<ConvertedTensor>> PlanConversion(const Checkpoint& checkpoint,
                                                    const TensorsByName& tensors,
                                                    const ConvertRules& rules, int rank) {
  const Planner planner(tensors, rules, rank);
  std::vector<ConvertedTensor> plan;
  for (const TensorInfo& source : checkpoint.tensors()) {
    auto tensor = planner.Plan(source);
    if (!tensor) {
      return Within(checkpoint.files()[source.file].string(), std::move(tensor).error());
    }
    if (*tensor) plan.push_back(std::move(**tensor));
  }
  return plan;
}

}  // namespace dsv4
