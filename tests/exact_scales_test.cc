// A model without scale_fmt: fp32 weight scales and activation scales of amax/448 as they are.
// Logits against a forward whose quantised products are done here, the long way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "ops/cpu_ops.h"
#include "tests/support/compare.h"
#include "tests/support/exact_scale_model.h"

namespace dsv4 {
namespace {

using kernels::Activation;

constexpr int64_t kActivationBlock = 128;
constexpr int32_t kRows = 150;

// The nearest E4M3 value by trying all; among two as near the one of the even code.
double NearestE4m3(double x) {
  int best = 0;
  for (int code = 1; code <= 0x7E; ++code) {
    const double off = std::fabs(double{kE4m3Values[static_cast<size_t>(code)]} - std::fabs(x));
    const double best_off =
        std::fabs(double{kE4m3Values[static_cast<size_t>(best)]} - std::fabs(x));
    if (off < best_off || (off == best_off && code % 2 == 0)) best = code;
  }
  return std::copysign(double{kE4m3Values[static_cast<size_t>(best)]}, x);
}

// A prepared row is its values in double: quantised ones as code times scale.
void PrepareTheLongWay(const kernels::PrepareArgs& args) {
  auto* out = reinterpret_cast<double*>(args.prepared);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    const Bf16* x = args.x + row * args.x_stride;
    for (int64_t begin = 0; begin < args.cols; begin += kActivationBlock) {
      const int64_t end = std::min(args.cols, begin + kActivationBlock);
      float amax = 1e-4f;
      for (int64_t k = begin; k < end; ++k) amax = std::max(amax, std::fabs(ToFloat(x[k])));
      const float scale = amax * (1.0f / 448.0f);
      for (int64_t k = begin; k < end; ++k) {
        const float value = ToFloat(x[k]);
        out[row * args.cols + k] = args.activation == Activation::kPlain
                                       ? value
                                       : NearestE4m3(value / scale) * double{scale};
      }
    }
  }
}

double WeightAt(const WeightView& w, int64_t row, int64_t k) {
  const std::byte* const data = w.data + row * w.row_bytes();
  switch (w.format) {
    case WeightFormat::kFp8:
      return kE4m3Values[std::to_integer<uint8_t>(data[k])];
    case WeightFormat::kFp4:
      return DecodeE2m1(
          static_cast<uint8_t>(std::to_integer<unsigned>(data[k / 2]) >> (k % 2 * 4) & 15u));
    case WeightFormat::kBf16: {
      Bf16 value;
      std::memcpy(&value, data + 2 * k, sizeof(value));
      return ToFloat(value);
    }
    case WeightFormat::kF32: {
      float value;
      std::memcpy(&value, data + 4 * k, sizeof(value));
      return value;
    }
  }
  return 0;
}

double ScaleAt(const WeightView& w, int64_t row, int64_t k) {
  const int64_t at = row / w.block_rows * w.scale_cols() + k / w.block_cols;
  if (w.format == WeightFormat::kFp4) return DecodeE8m0(std::to_integer<uint8_t>(w.scale[at]));
  if (w.format != WeightFormat::kFp8) return 1;
  float scale;  // of FP8 all are fp32 here
  std::memcpy(&scale, w.scale + 4 * at, sizeof(scale));
  return scale;
}

void ProductTheLongWay(const kernels::ProductArgs& args) {
  const WeightView& w = *args.weight;
  const auto* x = reinterpret_cast<const double*>(args.prepared);
  std::vector<double> weights(static_cast<size_t>(w.cols));
  for (int64_t n = args.begin; n < args.end; ++n) {
    for (int64_t k = 0; k < w.cols; ++k) {
      const double weight = WeightAt(w, n, k) * ScaleAt(w, n, k);
      const bool rounded = args.activation == Activation::kPlain && w.format == WeightFormat::kFp8;
      weights[static_cast<size_t>(k)] = rounded ? RoundToBf16(static_cast<float>(weight)) : weight;
    }
    for (int64_t r = 0; r < args.num_rows; ++r) {
      const double sum =
          std::inner_product(weights.begin(), weights.end(), x + r * w.cols, double{0});
      const int64_t at = r * args.output_stride + n - args.begin;
      if (args.output_type == kernels::OutputType::kBf16) {
        static_cast<Bf16*>(args.output)[at] = ToBf16(static_cast<float>(sum));
      } else {
        static_cast<float*>(args.output)[at] = static_cast<float>(sum);
      }
    }
  }
}

const kernels::Kernels& TheLongWay() {
  static const kernels::Kernels table = [] {
    kernels::Kernels copy = **kernels::Choose("ref");
    copy.name = "long";
    copy.prepared_row_bytes = [](Activation, int64_t cols, int32_t) {
      return cols * static_cast<int64_t>(sizeof(double));
    };
    copy.prepare = PrepareTheLongWay;
    copy.product = ProductTheLongWay;
    return copy;
  }();
  return table;
}

struct Loaded {
  Loaded(const std::filesystem::path& folder, const kernels::Kernels& kernels)
      : ops(MakeCpuOps(kernels, 2)) {
    auto loaded = model::Model::Load(folder, *ops, {});
    DSV4_CHECK(loaded.has_value(), "{}", loaded.error().message);
    model = std::move(*loaded);
  }
  // Logits [kRows, vocab] of kRows tokens in runs of at most `chunk`.
  test::FloatTensor Logits(int32_t chunk = kRows) {
    const int64_t vocab = model->config().vocab_size;
    model::KvCache cache = model::KvCache::Create(model->config(), 1, 2).value();
    const std::vector<int32_t> pages = {0, 1};
    std::vector<int32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < kRows; ++i) tokens.push_back(i * 37 % 512);
    test::FloatTensor logits{{}, {kRows, vocab}};
    logits.values.resize(static_cast<size_t>(kRows * vocab));
    for (int32_t start = 0; start < kRows; start += chunk) {
      const int32_t count = std::min(chunk, kRows - start);
      const auto size = static_cast<size_t>(count);
      const model::SequenceRun run{0, start, count, pages};
      model->Forward({std::span(tokens).subspan(static_cast<size_t>(start), size),
                      {&run, 1},
                      std::span(rows).first(size)},
                     cache, {logits.values.data() + start * vocab, nullptr, nullptr});
    }
    return logits;
  }

  std::unique_ptr<Ops> ops;
  std::unique_ptr<model::Model> model;
};

test::FloatTensor Logits(const std::filesystem::path& folder, const kernels::Kernels& kernels) {
  return Loaded(folder, kernels).Logits();
}

class ExactScales : public ::testing::TestWithParam<std::string> {};

// One layer, as quantisation multiplies the least differences from layer to layer.
TEST_P(ExactScales, LogitsAreThoseOfTheLongWay) {
  // Most rows agree to the last bits of their sums; a few cross a border of FP8 or bf16 on the way.
  // With the other rule for scales the median is 0.03.
  const test::Tolerance tolerance{.rms = 0.007, .median = 1e-6, .max = 0.05};
  const testing::ExactScaleModel exact(GetParam());
  const test::FloatTensor want = Logits(exact.path(), TheLongWay());
  for (const kernels::Kernels* kernels : kernels::Runnable()) {
    EXPECT_TRUE(test::WithinTolerance(Logits(exact.path(), *kernels), want, tolerance))
        << kernels->name;
  }
  // The comparison would see the other rule, and the scales of the source.
  kernels::Kernels wrong = **kernels::Choose("ref");
  wrong.prepare = [](const kernels::PrepareArgs& args) {
    kernels::PrepareArgs rounded = args;
    rounded.scale = kernels::ActScale::kPowerOfTwo;
    (*kernels::Choose("ref"))->prepare(rounded);
  };
  EXPECT_FALSE(test::WithinTolerance(Logits(exact.path(), wrong), want, tolerance));
  const std::string source = DSV4_TEST_DATA "/model/" + GetParam() + "/checkpoint";
  EXPECT_FALSE(test::WithinTolerance(Logits(source, **kernels::Choose("ref")), want, tolerance));
}

TEST(ExactScalesOfAWholeModel, ChunksChangeNoBit) {
  const testing::ExactScaleModel exact("flash-tiny");
  for (const kernels::Kernels* kernels : kernels::Runnable()) {
    Loaded loaded(exact.path(), *kernels);
    const test::FloatTensor whole = loaded.Logits();
    for (const int32_t chunk : {1, 3, 7, 64, 129}) {
      EXPECT_TRUE(test::SameBits(loaded.Logits(chunk), whole))
          << kernels->name << ", chunks of " << chunk;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OneLayer, ExactScales,
                         ::testing::Values("one-window", "one-csa", "one-hca"),
                         [](const auto& test) { return test.param.substr(4); });

}  // namespace
}  // namespace dsv4
