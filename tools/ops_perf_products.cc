// Products at the shapes of the published models and at 4096 x 4096, weights from memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "ops/claims.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"
#include "tests/support/product_input.h"
#include "tools/ops_cases.h"

namespace dsv4::tools {
namespace {

using kernels::Activation;
using test::kPublished;
using test::ModelShapes;
using test::ProductShape;

// Tensors of a file begin at multiples of 8 or 16, seldom of 64.
constexpr int64_t kFileOffset = 16;

// Codes as quantising Gaussian weights gives: the largest of a block near the largest code.
std::vector<std::byte> WeightBytes(WeightFormat format) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  std::mt19937_64 rng(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(static_cast<size_t>(kBytes));
  constexpr float kFp8Spread = 448.0f / 6;  // of 128 x 128, power-of-two scales
  constexpr float kFp4Spread = 6.0f / 3;    // of 32
  for (int64_t i = 0; i < kBytes;) {
    if (format == WeightFormat::kFp8) {
      bytes[static_cast<size_t>(i++)] =
          static_cast<std::byte>(EncodeE4m3(normal(rng) * kFp8Spread));
    } else if (format == WeightFormat::kFp4) {
      const int low = EncodeE2m1(normal(rng) * kFp4Spread);
      bytes[static_cast<size_t>(i++)] =
          static_cast<std::byte>(low | EncodeE2m1(normal(rng) * kFp4Spread) << 4);
    } else if (format == WeightFormat::kBf16) {
      const Bf16 value = ToBf16(normal(rng) * 0.02f);
      std::memcpy(bytes.data() + i, &value, sizeof(value));
      i += 2;
    } else {
      const float value = normal(rng) * 0.02f;
      std::memcpy(bytes.data() + i, &value, sizeof(value));
      i += 4;
    }
  }
  return bytes;
}

struct PerfProduct {
  ProductShape shape;
  WeightView weight;
  std::vector<std::byte> scales;
  std::vector<std::byte> prepared;
  std::vector<Bf16> output;

  PerfProduct(const ProductShape& s, const kernels::Kernels& set)
      : shape(s), weight(ProductViewOf(s)) {
    const std::vector<Bf16> x = test::RandomBf16(s.num_rows * s.cols, 2);
    scales.assign(static_cast<size_t>(s.weight_rows * s.cols / 32 + 1), std::byte{120});
    weight.scale = scales.data();
    prepared.resize(static_cast<size_t>(
        s.num_rows * set.prepared_row_bytes(s.activation, s.cols, /*block=*/128)));
    output.resize(static_cast<size_t>(s.num_rows * s.weight_rows));
    set.prepare({.x = x.data(),
                 .x_stride = s.cols,
                 .num_rows = s.num_rows,
                 .cols = s.cols,
                 .activation = s.activation,
                 .scale = s.scale,
                 .prepared = prepared.data()});
  }

  void Run(const kernels::Kernels& set, const std::byte* data, int64_t begin, int64_t end) {
    WeightView view = weight;
    view.data = data;
    set.product({.prepared = prepared.data(),
                 .num_rows = shape.num_rows,
                 .activation = shape.activation,
                 .scale = shape.scale,
                 .weight = &view,
                 .begin = begin,
                 .end = end,
                 .output = output.data() + begin,
                 .output_stride = weight.rows});
  }
};

void Add(std::vector<PerfCase>* cases, const ProductShape& shape, std::string_view what = "",
         int64_t offset = kFileOffset) {
  const WeightView view = ProductViewOf(shape);
  PerfCase perf;
  perf.op = "product";
  perf.name = fmt::format("{}{}{}", Text(shape), what.empty() ? "" : " ", what);
  perf.items = shape.weight_rows;
  perf.grain = [=](int num_threads) {
    return ProductGrain(shape.weight_rows, shape.num_rows, num_threads);
  };
  perf.bytes = static_cast<double>(view.bytes_of_rows(view.rows));
  perf.flops = 2.0 * static_cast<double>(shape.num_rows * view.rows * view.cols);
  perf.cold = {.bytes = view.row_bytes() * view.rows,
               .offset = offset,
               .contents = fmt::format("weights {}", static_cast<int>(shape.format)),
               .make = [format = shape.format] { return WeightBytes(format); }};
  perf.prepare = [shape](const kernels::Kernels& set, int) {
    const auto product = std::make_shared<PerfProduct>(shape, set);
    return [product, &set](const std::byte* cold, int64_t begin, int64_t end, int) {
      product->Run(set, cold, begin, end);
    };
  };
  cases->push_back(std::move(perf));
}

// Of one token: every linear layer of a model. The experts' weights of a token are one call.
void AddModel(std::vector<PerfCase>* cases, const ModelShapes& model) {
  using enum WeightFormat;
  struct Linear {
    const char* what;
    WeightFormat format;
    int64_t rows;
    int64_t cols;
    Activation activation = Activation::kQuantized;
  };
  constexpr auto kPlain = Activation::kPlain;
  const int64_t dim = model.dim;
  const int64_t chosen = model.num_chosen;
  const Linear linears[] = {
      {"wq_a", kFp8, model.q_rank, dim},
      {"wq_b", kFp8, model.q_dim(), model.q_rank},
      {"wkv", kFp8, model.head_dim, dim},
      {"wo_a of a group", kFp8, model.o_rank, model.group_dim(), kPlain},
      {"wo_b", kFp8, dim, int64_t{model.o_groups} * model.o_rank},
      {"indexer wq_b", kFp8, int64_t{model.index_heads} * model.index_width, model.q_rank},
      {"shared w1", kFp8, model.expert_width, dim},
      {"shared w2", kFp8, dim, model.expert_width},
      {"experts w1, w3", kFp4, 2 * chosen * model.expert_width, dim},
      {"experts w2", kFp4, chosen * dim, model.expert_width},
      {"gate", kBf16, model.num_experts, dim, kPlain},
      {"a quarter of head", kBf16, 129280 / 4, dim, kPlain},
      {"hc fn", kF32, (2 + model.hc) * model.hc, model.hc_dim(), kPlain},
  };
  for (const Linear& linear : linears) {
    Add(cases, {linear.format, 1, linear.rows, linear.cols, linear.activation},
        fmt::format("{} {}", model.name, linear.what));
  }
}

}  // namespace

std::vector<PerfCase> ProductPerfCases() {
  using enum WeightFormat;
  std::vector<PerfCase> cases;
  for (const int64_t rows : {1, 2, 4, 8, 64, 512}) {
    Add(&cases, {kFp8, rows, 4096, 4096});
    Add(&cases, {kFp4, rows, 4096, 4096});
    Add(&cases, {kFp8, rows, 4096, 4096, Activation::kPlain});
    Add(&cases, {kBf16, rows, 4096, 4096, Activation::kPlain});
    Add(&cases, {kF32, rows, 24, 16384, Activation::kPlain});
    if (rows > 1) continue;
    Add(&cases, {kFp8, rows, 4096, 4096}, "aligned", 0);
    Add(&cases, {kFp4, rows, 4096, 4096}, "aligned", 0);
  }
  for (const ModelShapes& model : kPublished) AddModel(&cases, model);
  // The memory is filled once for each format.
  std::ranges::stable_sort(cases, {}, [](const PerfCase& perf) { return perf.cold.contents; });
  return cases;
}

}  // namespace dsv4::tools
