// Products: a set's values against ref's, and its bits for every way
// of cutting the work.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "kernels/dispatch.h"
#include "tests/support/against_ref.h"
#include "tests/support/kernel_checks.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"
#include "tests/support/product_input.h"

namespace dsv4::test {
namespace {

using kernels::Activation;
using kernels::ActScale;

// fp32 sums of the same exact products in two orders differ by roundings of the partial sums.
constexpr double kTolerance = 2e-6;

bool SameFloat(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Verdict Compare(const std::vector<float>& got, const std::vector<float>& want,
                const std::vector<double>& magnitudes) {
  if (got.empty() || got.size() != want.size()) return {false, "bytes outside a buffer changed"};
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (SameFloat(got[i], want[i])) continue;
    const double error = std::fabs(double{got[i]} - want[i]) / magnitudes[i];
    if (!(error <= kTolerance)) {
      return {false, fmt::format("output {} is {}, ref has {}", i, got[i], want[i])};
    }
    worst = std::max(worst, error);
  }
  return {true, fmt::format("{} outputs, worst error {:.1e} of the sum of magnitudes", got.size(),
                            worst)};
}

Verdict RunCase(const ProductShape& shape, Extremes extremes, const kernels::Kernels& set) {
  ProductInput input(shape, 7, extremes);
  const std::vector<float> whole = input.Compute(set, shape.weight_rows, shape.num_rows);
  const std::vector<float> want =
      input.Compute(**kernels::Choose("ref"), shape.weight_rows, shape.num_rows);
  Verdict verdict = Compare(whole, want, input.Magnitudes());
  if (!verdict.ok) return verdict;
  for (const auto& [slice, batch] : {std::pair<int64_t, int64_t>{shape.weight_rows, 1},
                                     {7, shape.num_rows},
                                     {3, 2},
                                     {shape.weight_rows, 5}}) {
    const std::vector<float> parts = input.Compute(set, slice, batch);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (i >= parts.size() || !SameFloat(parts[i], whole[i])) {
        return {false, fmt::format("output {} differs in slices of {} and batches of {}", i, slice,
                                   batch)};
      }
    }
  }
  return verdict;
}

void Add(std::vector<KernelCheck>* cases, const ProductShape& shape,
         Extremes extremes = Extremes::kNone, std::string_view note = "") {
  cases->push_back({"product", fmt::format("{}{}", Text(shape), note),
                    [=](const kernels::Kernels& set) { return RunCase(shape, extremes, set); }});
}

void AddRagged(std::vector<KernelCheck>* cases) {
  for (const int64_t cols : {1, 15, 31, 33, 63, 65, 127, 129, 255, 257, 511, 1025, 2049, 4097}) {
    Add(cases, {WeightFormat::kFp8, cols % 9 + 1, cols % 13 + 1, cols});
    Add(cases, {WeightFormat::kFp8, 3, 6, cols, Activation::kPlain});
    Add(cases, {WeightFormat::kBf16, cols % 9 + 1, 5, cols, Activation::kPlain});
    Add(cases, {WeightFormat::kF32, cols % 9 + 1, 5, cols, Activation::kPlain});
  }
  for (const int64_t cols : {32, 96, 160, 1056, 4128}) {
    Add(cases, {WeightFormat::kFp4, cols / 32 % 7 + 1, 9, cols});
    Add(cases, {WeightFormat::kFp4, 3, 5, cols, Activation::kQuantized, ActScale::kExact});
  }
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 131, 133, 265}) {
    Add(cases, {WeightFormat::kFp8, rows, 53, 320});
    Add(cases, {WeightFormat::kFp4, rows, 53, 320});
  }
  Add(cases, {WeightFormat::kFp8, 4, 140, 384, Activation::kQuantized, ActScale::kExact,
              ScaleFormat::kF32});
  Add(cases, {WeightFormat::kFp8, 4, 140, 384, Activation::kPlain, ActScale::kPowerOfTwo,
              ScaleFormat::kF32});
}

void AddExtremes(std::vector<KernelCheck>* cases) {
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    for (const int64_t rows : {1, 4}) {
      const ProductShape shape{format, rows, 130, 288};
      Add(cases, shape, Extremes::kNanCodes, " with NaN codes");
      Add(cases, shape, Extremes::kInfiniteRows, " with infinite and NaN activations");
      Add(cases, shape, Extremes::kHugeScales, " with scales of 2^119");
      Add(cases, shape, Extremes::kTinyScales, " with scales of 2^-127");
    }
  }
}

// Shapes of the published configurations, few rows of each weight.
void AddPublished(std::vector<KernelCheck>* cases) {
  for (const int64_t cols : {1024, 1536, 2048, 3072, 4096, 7168, 8192, 16384}) {
    Add(cases, {WeightFormat::kFp8, 2, 6, cols});
    Add(cases, {WeightFormat::kFp8, 1, 6, cols, Activation::kPlain});
    Add(cases, {WeightFormat::kFp4, 2, 6, cols});
    Add(cases, {WeightFormat::kBf16, 2, 6, cols, Activation::kPlain});
  }
  Add(cases, {WeightFormat::kF32, 2, 24, 16384, Activation::kPlain});
  Add(cases, {WeightFormat::kF32, 2, 24, 28672, Activation::kPlain});
}

// The layout of prepared rows belongs to the set, but a row's bytes do not depend on the stride or
// on the rows beside it. What they mean is seen in products.
Verdict PrepareCase(const kernels::Kernels& set, int64_t cols, Activation activation,
                    ActScale scale) {
  constexpr int64_t kRows = 5;
  const int64_t stride = cols + 3;
  const std::vector<Bf16> x = WildBf16(kRows * stride, 50);
  const int64_t row_bytes = set.prepared_row_bytes(activation, cols, 128);
  const auto prepare = [&](int64_t first, int64_t count, CallBuffers* buffers) {
    set.prepare({.x = x.data() + first * stride,
                 .x_stride = stride,
                 .num_rows = count,
                 .cols = cols,
                 .activation = activation,
                 .scale = scale,
                 .prepared = buffers->Output<std::byte>(count * row_bytes)});
  };
  CallBuffers together(/*misaligned=*/false);
  prepare(0, kRows, &together);
  CallBuffers alone(/*misaligned=*/true);
  for (int64_t r = 0; r < kRows; ++r) prepare(r, 1, &alone);
  if (!together.Intact() || !alone.Intact()) return {false, "bytes outside a buffer changed"};
  std::vector<std::byte> rows;
  for (const auto& output : alone.outputs()) {
    rows.insert(rows.end(), output.values.begin(), output.values.end());
  }
  return SameBytes(rows, together.outputs()[0].values, 1);
}

void AddPrepare(std::vector<KernelCheck>* cases) {
  const auto add = [cases](const std::string& name, const std::vector<int64_t>& widths) {
    cases->push_back({"prepare", name, [=](const kernels::Kernels& set) {
                        Verdicts verdicts;
                        for (const int64_t cols : widths) {
                          for (const auto scale : {ActScale::kExact, ActScale::kPowerOfTwo}) {
                            for (const auto how : {Activation::kQuantized, Activation::kPlain}) {
                              verdicts.Add(fmt::format("{} columns", cols),
                                           PrepareCase(set, cols, how, scale));
                            }
                          }
                        }
                        return verdicts.Total();
                      }});
  };
  std::vector<int64_t> ragged;
  for (int64_t cols = 1; cols <= 140; ++cols) ragged.push_back(cols);
  add("5 x 1..140, with specials", ragged);
  for (const ModelShapes& model : kPublished) {
    add(fmt::format("{} widths, with specials", model.name),
        {model.dim, model.q_rank, model.expert_width, model.group_dim(),
         int64_t{model.o_groups} * model.o_rank, model.hc_dim()});
  }
}

}  // namespace

std::vector<KernelCheck> ProductChecks() {
  std::vector<KernelCheck> cases;
  AddPrepare(&cases);
  AddRagged(&cases);
  AddExtremes(&cases);
  AddPublished(&cases);
  return cases;
}

}  // namespace dsv4::test
