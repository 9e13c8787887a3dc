#include "tools/ops_perf.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <vector>

#include "kernels/cpu/limits.h"
#include "tools/ops_cases.h"
#include "tools/ops_cold.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::cpu::Arithmetic;

constexpr std::chrono::milliseconds kCaseTime{400};
constexpr int kLeastRounds = 9;
// A pass of reads, and of the operation where it reads from memory.
constexpr int64_t kReadPassBytes = int64_t{64} << 20;
// About as long as a pass of reads takes.
constexpr double kPassSeconds = 2.5e-3;
// Shares measured with less of the processors are worth little.
constexpr double kLeastOwn = 0.93;

// Seconds that `run` takes.
template <class Run>
double Time(Run run) {
  const auto begin = Clock::now();
  run();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Calls `round` for a while and at least a few times.
template <class Round>
void ForAWhile(Round round) {
  const auto start = Clock::now();
  for (int i = 0; i < kLeastRounds || Clock::now() - start < kCaseTime; ++i) round();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a pool of threads does at most with a set's vectors.
class LimitMeter {
 public:
  LimitMeter(ThreadPool& pool, ColdMemory& cold, Arithmetic arithmetic)
      : pool_(pool), cold_(cold), arithmetic_(arithmetic) {
    Round();  // the clock rises to what the instructions allow
    reads_.clear();
    multiplies_.clear();
    cpu_seconds_ = wall_seconds_ = 0;
  }

  // One pass of reads and one of arithmetic.
  void Round() {
    const std::byte* const p = cold_.Next(kReadPassBytes);
    const std::clock_t cpu = std::clock();
    const double read = Time([&] {
      constexpr int64_t kClaim = kernels::cpu::kReadClaimBytes;
      pool_.For(kReadPassBytes / kClaim, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          if (kernels::cpu::ReadMemory(arithmetic_, p + i * kClaim, kClaim) == 1) ++ones_;
        }
      });
    });
    reads_.push_back(static_cast<double>(kReadPassBytes) / read);
    const int64_t claims = int64_t{pool_.num_threads()} * 8;
    std::vector<double> operations(static_cast<size_t>(claims));
    const double multiply = Time([&] {
      pool_.For(claims, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          operations[static_cast<size_t>(i)] = kernels::cpu::RunArithmetic(arithmetic_, kRounds);
        }
      });
    });
    double total = 0;
    for (const double n : operations) total += n;
    multiplies_.push_back(total / multiply);
    cpu_seconds_ += static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    wall_seconds_ += read + multiply;
  }

  MachineLimits Medians() const { return {Median(reads_), Median(multiplies_)}; }
  // The share of the threads' time in which they had their processors: 1 on a quiet machine.
  double own() const { return cpu_seconds_ / (wall_seconds_ * pool_.num_threads()); }

 private:
  static constexpr int64_t kRounds = 50'000;

  ThreadPool& pool_;
  ColdMemory& cold_;
  Arithmetic arithmetic_;
  std::vector<double> reads_;
  std::vector<double> multiplies_;
  double cpu_seconds_ = 0;
  double wall_seconds_ = 0;
  std::atomic<int64_t> ones_ = 0;  // keeps what is read from being left out
};

struct Measured {
  double seconds = 0;  // a call
  MachineLimits limits;
  double own = 0;  // see LimitMeter
};

// A pass over cold operands reads as many bytes as a pass of the limit, unless arithmetic makes it
// long: then, and in the caches, it lasts some milliseconds. `seconds` is the time of a call.
int64_t CallsOfAPass(const PerfCase& perf, double seconds) {
  const double by_time = (perf.cold.bytes > 0 ? 4 : 1) * kPassSeconds / seconds;
  const double by_bytes =
      perf.cold.bytes > 0 ? static_cast<double>(kReadPassBytes) / perf.bytes : by_time;
  return std::clamp<int64_t>(static_cast<int64_t>(std::min(by_time, by_bytes)), 1, 10000);
}

// The limits and the case by turns: the machine's speed changes within seconds, and so both see the
// same.
Measured Measure(ThreadPool& pool, ColdMemory& cold, const kernels::Kernels& set,
                 const PerfCase& perf) {
  const int num_threads = pool.num_threads();
  const PerfCall call = perf.prepare(set, num_threads);
  const int64_t grain = perf.grain(num_threads);
  const auto run = [&] {
    const std::byte* const p = cold.Next(perf.cold.bytes, perf.cold.unit, perf.cold.offset);
    pool.For(perf.items, grain,
             [&](int64_t begin, int64_t end, int thread) { call(p, begin, end, thread); });
  };
  if (perf.cold.bytes > 0) cold.Fill(perf.cold);
  run();
  const int64_t calls = CallsOfAPass(perf, Time(run));
  LimitMeter limits(pool, cold, kernels::cpu::ArithmeticOf(set.name));
  std::vector<double> times;
  ForAWhile([&] {
    limits.Round();
    times.push_back(Time([&] {
      for (int64_t i = 0; i < calls; ++i) run();
    }));
  });
  return {Median(times) / static_cast<double>(calls), limits.Medians(), limits.own()};
}

MachineLimits MeasureLimitsOn(ThreadPool& pool, ColdMemory& cold, const kernels::Kernels& set) {
  LimitMeter meter(pool, cold, kernels::cpu::ArithmeticOf(set.name));
  ForAWhile([&] { meter.Round(); });
  return meter.Medians();
}

Status PrintLine(const PerfCase& perf, const Measured& measured) {
  const double bytes_per_s = perf.bytes / measured.seconds;
  const std::string share =
      perf.cold.bytes == 0
          ? "in cache"
          : fmt::format("{:.0f} % of {:.2f}", 100 * bytes_per_s / measured.limits.read_bytes_per_s,
                        measured.limits.read_bytes_per_s / 1e9);
  std::string line = fmt::format("{} {}: {:.2f} us, {:.2f} GB/s ({})", perf.op, perf.name,
                                 measured.seconds * 1e6, bytes_per_s / 1e9, share);
  if (perf.flops > 0) {
    const double flops = perf.flops / measured.seconds;
    line += fmt::format(", {:.1f} GFLOP/s ({:.0f} % of {:.0f})", flops / 1e9,
                        100 * flops / measured.limits.flops, measured.limits.flops / 1e9);
  }
  DSV4_TRY(WriteStandardOutput(line + "\n"));
  std::fflush(stdout);
  if (measured.own < kLeastOwn) {
    WriteStandardError(
        fmt::format("the threads lacked a processor {:.0f} % of the time during that\n",
                    100 * (1 - measured.own)));
  }
  return {};
}

}  // namespace

MachineLimits MeasureLimits(ThreadPool& pool, const kernels::Kernels& set) {
  Result<ColdMemory> cold = ColdMemory::Make();
  return cold ? MeasureLimitsOn(pool, *cold, set) : MachineLimits{};
}

Status PrintPerf(ThreadPool& pool, const kernels::Kernels& set, const std::string& op,
                 const std::regex& pattern) {
  std::vector<PerfCase> chosen;
  for (const auto cases : {ProductPerfCases, RowPerfCases, SelectionPerfCases}) {
    for (PerfCase& perf : cases()) {
      if ((op.empty() || perf.op == op) && std::regex_search(perf.name, pattern)) {
        chosen.push_back(std::move(perf));
      }
    }
  }
  if (chosen.empty()) return UsageError("no case matches");
  DSV4_ASSIGN(ColdMemory cold, ColdMemory::Make());
  const MachineLimits limits = MeasureLimitsOn(pool, cold, set);
  DSV4_TRY(WriteStandardOutput(fmt::format(
      "{}, {} threads: reads {:.2f} GB/s, multiplies and adds {:.1f} GFLOP/s\n", set.name,
      pool.num_threads(), limits.read_bytes_per_s / 1e9, limits.flops / 1e9)));
  for (const PerfCase& perf : chosen) DSV4_TRY(PrintLine(perf, Measure(pool, cold, set, perf)));
  return {};
}

}  // namespace dsv4::tools
