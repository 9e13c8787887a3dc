#include "tools/ops_perf.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/cpu/limits.h"
#include "tools/ops_cases.h"
#include "tools/ops_products.h"

namespace dsv4::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCaseSeconds = 0.6;
// More than the caches hold, so that weights come from memory.
constexpr int64_t kColdBytes = int64_t{512} << 20;
constexpr int64_t kReadBytes = int64_t{16} << 20;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

struct Times {
  double best = 0;
  double median = 0;
};

// Repeats `run` for a while and at least a few times.
template <class Run>
Times Measure(Run run) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (times.size() < 5 || (Seconds(start) < kCaseSeconds && times.size() < 2000)) {
    const auto begin = Clock::now();
    run(static_cast<int64_t>(times.size()));
    times.push_back(Seconds(begin));
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

// Bytes for weights of every format: finite FP8 codes that are bf16 numbers near 1 in pairs.
const std::vector<std::byte>& ColdBytes() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(static_cast<size_t>(kColdBytes));
    std::mt19937_64 rng(1);
    for (size_t i = 0; i < made.size(); i += 8) {
      const uint64_t word = (rng() & 0x80FE80FE80FE80FEu) | 0x3E003E003E003E00u;
      std::memcpy(made.data() + i, &word, sizeof(word));
    }
    return made;
  }();
  return bytes;
}

struct PerfProduct {
  ProductShape shape;
  WeightView weight;
  std::vector<std::byte> scales;
  std::vector<std::byte> prepared;
  std::vector<Bf16> output;
  const kernels::Kernels* set = nullptr;

  void Run(int64_t repeat, int64_t begin, int64_t end) {
    const int64_t bytes = weight.row_bytes() * weight.rows;
    WeightView view = weight;
    view.data = ColdBytes().data() + repeat % (kColdBytes / bytes) * bytes;
    set->product({.prepared = prepared.data(),
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

std::shared_ptr<PerfProduct> MakeProduct(const ProductShape& shape, const kernels::Kernels& set) {
  auto product = std::make_shared<PerfProduct>();
  product->shape = shape;
  product->set = &set;
  product->weight = ProductViewOf(shape);
  product->scales.assign(static_cast<size_t>(shape.weight_rows * shape.cols / 32 + 1),
                         std::byte{120});
  product->weight.scale = product->scales.data();
  const auto num_values = static_cast<size_t>(shape.num_rows * shape.cols);
  std::vector<Bf16> x(num_values);
  for (size_t i = 0; i < x.size(); ++i) x[i] = ToBf16(static_cast<float>(i % 251) - 125.0f);
  const int64_t row_bytes = set.prepared_row_bytes(shape.activation, shape.cols, 128);
  product->prepared.resize(static_cast<size_t>(shape.num_rows * row_bytes));
  product->output.resize(static_cast<size_t>(shape.num_rows * shape.weight_rows));
  set.prepare({.x = x.data(),
               .x_stride = shape.cols,
               .num_rows = shape.num_rows,
               .cols = shape.cols,
               .activation = shape.activation,
               .scale = shape.scale,
               .prepared = product->prepared.data()});
  return product;
}

PerfCase CaseOf(const ProductShape& shape) {
  const WeightView view = ProductViewOf(shape);
  PerfCase result;
  result.op = "product";
  result.name = Text(shape);
  result.items = shape.weight_rows;
  result.grain = 64;
  const int64_t scales =
      view.scale_format == ScaleFormat::kNone
          ? 0
          : (view.rows + view.block_rows - 1) / view.block_rows * view.scale_cols();
  result.bytes = static_cast<double>(view.row_bytes() * view.rows + scales);
  result.flops = 2.0 * static_cast<double>(shape.num_rows * view.rows * view.cols);
  result.prepare = [shape](const kernels::Kernels& set) {
    const auto product = MakeProduct(shape, set);
    return [product](int64_t i, int64_t begin, int64_t end) { product->Run(i, begin, end); };
  };
  return result;
}

}  // namespace

std::vector<PerfCase> ProductPerfCases() {
  using kernels::Activation;
  std::vector<PerfCase> cases;
  for (const int64_t rows : {1, 2, 4, 8, 64, 512}) {
    for (const auto& [weight_rows, cols] :
         {std::pair<int64_t, int64_t>{4096, 4096}, {2048, 4096}, {4096, 2048}, {4096, 8192}}) {
      if (rows > 1 && cols != 4096) continue;
      cases.push_back(CaseOf({WeightFormat::kFp8, rows, weight_rows, cols}));
      cases.push_back(CaseOf({WeightFormat::kFp4, rows, weight_rows, cols}));
    }
    cases.push_back(CaseOf({WeightFormat::kFp8, rows, 4096, 4096, Activation::kPlain}));
    cases.push_back(CaseOf({WeightFormat::kBf16, rows, 4096, 4096, Activation::kPlain}));
    cases.push_back(CaseOf({WeightFormat::kF32, rows, 24, 16384, Activation::kPlain}));
  }
  return cases;
}

MachineLimits MeasureLimits(ThreadPool& pool, const kernels::Kernels& set) {
  const auto arithmetic = kernels::cpu::ArithmeticOf(set.name);
  const std::vector<std::byte>& bytes = ColdBytes();
  const int64_t threads = pool.num_threads();
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  std::vector<double> operations(static_cast<size_t>(threads));
  const Times read = Measure([&](int64_t i) {
    const int64_t share = kReadBytes * threads;
    const std::byte* const p = bytes.data() + i % (kColdBytes / share) * share;
    pool.For(threads, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        sums[static_cast<size_t>(t)] ^=
            kernels::cpu::ReadFourStreams(p + t * kReadBytes, kReadBytes);
      }
    });
  });
  const Times multiply = Measure([&](int64_t) {
    pool.For(threads, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        operations[static_cast<size_t>(t)] = kernels::cpu::RunArithmetic(arithmetic, 200'000);
      }
    });
  });
  double total = 0;
  for (const double n : operations) total += n;
  return {static_cast<double>(kReadBytes * threads) / read.median, total / multiply.median};
}

Status PrintPerf(ThreadPool& pool, const kernels::Kernels& set, const std::string& op,
                 const std::regex& pattern) {
  const MachineLimits limits = MeasureLimits(pool, set);
  fmt::print("{}, {} threads: reads {:.2f} GB/s, multiplies and adds {:.1f} GFLOP/s\n", set.name,
             pool.num_threads(), limits.read_bytes_per_s / 1e9, limits.flops / 1e9);
  for (const PerfCase& perf : ProductPerfCases()) {
    if ((!op.empty() && perf.op != op) || !std::regex_search(perf.name, pattern)) continue;
    const auto run = perf.prepare(set);
    const Times times = Measure([&](int64_t i) {
      pool.For(perf.items, perf.grain,
               [&](int64_t begin, int64_t end, int) { run(i, begin, end); });
    });
    const double bytes_per_s = perf.bytes / times.median;
    const double flops = perf.flops / times.median;
    fmt::print(
        "{} {}: {:.1f} us (best {:.1f}), {:.2f} GB/s ({:.0f} %), {:.1f} GFLOP/s ({:.0f} %)\n",
        perf.op, perf.name, times.median * 1e6, times.best * 1e6, bytes_per_s / 1e9,
        100 * bytes_per_s / limits.read_bytes_per_s, flops / 1e9, 100 * flops / limits.flops);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace dsv4::tools
