#include "tools/bench_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "base/mix.h"
#include "checkpoint/safetensors.h"
#include "engine/sampling_math.h"
#include "kernels/dispatch.h"
#include "model/memory_plan.h"
#include "model/model.h"
#include "platform/memory_info.h"
#include "tools/bench_check.h"

namespace dsv4::tools {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

// What decoding answered: [gen, batch] tokens, and the logits of the last step.
struct Answers {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
};

bool SameFloats(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// A model with its sequences.
class Bencher {
 public:
  static Result<Bencher> Create(const std::filesystem::path& folder, Ops& ops,
                                const BenchOptions& options) {
    Bencher bench(ops, options);
    const model::Model::Options most;
    const int64_t rows = std::max<int64_t>(std::min<int64_t>(options.prompt, most.max_rows),
                                           std::max(options.batch, 1));
    DSV4_ASSIGN(bench.model_,
                model::Model::Load(folder, ops, {.max_rows = static_cast<int32_t>(rows)}));
    const int64_t pages = model::KvLayout::PagesFor(options.positions());
    DSV4_ASSIGN(model::KvCache cache,
                model::KvCache::Create(bench.config(), options.batch,
                                       static_cast<int32_t>(options.batch * pages)));
    bench.cache_ = std::make_unique<model::KvCache>(std::move(cache));
    bench.pages_.resize(static_cast<size_t>(options.batch * pages));
    std::iota(bench.pages_.begin(), bench.pages_.end(), 0);
    bench.logits_.resize(static_cast<size_t>(options.batch * bench.config().vocab_size));
    return bench;
  }

  const model::ModelConfig& config() const { return model_->config(); }
  const model::Model& model() const { return *model_; }
  const model::KvLayout& layout() const { return cache_->layout(); }

  // Contexts of all sequences; keeps the state that each repeat begins with.
  Status Fill() {
    for (int32_t s = 0; s < options_.batch; ++s) {
      const int64_t tokens = options_.context + (s == 0 ? 0 : options_.prompt);
      if (tokens > 0) DSV4_TRY(cache_->FillSynthetic(s, PagesOf(s), tokens, kSeed + uint64_t(s)));
    }
    before_prompt_ = Copy(cache_->slot(0));
    return {};
  }

  // Seconds that the prompt takes; the logits of its last token are in logits().
  double Prefill() {
    Restore(before_prompt_, 0);
    const auto start = Clock::now();
    for (int64_t done = 0; done < options_.prompt && !options_.stopped();) {
      const int64_t rows = std::min<int64_t>(options_.prompt - done, model_->max_rows());
      tokens_.clear();
      for (int64_t i = 0; i < rows; ++i) {
        tokens_.push_back(TokenAt(0, options_.context + done + i));
      }
      const model::SequenceRun run{0, options_.context + done, static_cast<int32_t>(rows),
                                   PagesOf(0)};
      const auto last = static_cast<int32_t>(rows - 1);
      const bool wanted = done + rows == options_.prompt;
      model_->Forward({tokens_, {&run, 1}, {&last, wanted ? 1u : 0u}}, *cache_,
                      {logits_.data(), nullptr, nullptr});
      done += rows;
    }
    static_cast<void>(ArgMax(logits_of(0)));
    return Seconds(start);
  }
  void KeepState() {
    for (int32_t s = 0; s < options_.batch; ++s) before_decode_.push_back(Copy(cache_->slot(s)));
  }

  struct Decoded {
    double seconds = 0;
    double choosing_seconds = 0;
    double first_s = 0;  // the first step
    Answers answers;
  };
  Decoded Decode() {
    for (int32_t s = 0; s < options_.batch; ++s) {
      Restore(before_decode_[static_cast<size_t>(s)], s);
    }
    std::vector<model::SequenceRun> runs(static_cast<size_t>(options_.batch));
    std::vector<int32_t> rows(runs.size());
    std::iota(rows.begin(), rows.end(), 0);
    Decoded result;
    result.answers.tokens.reserve(runs.size() * static_cast<size_t>(options_.gen));
    const auto start = Clock::now();
    for (int64_t step = 0; step < options_.gen && !options_.stopped(); ++step) {
      const int64_t position = options_.context + options_.prompt + step;
      tokens_.clear();
      for (int32_t s = 0; s < options_.batch; ++s) {
        tokens_.push_back(TokenAt(s, position));
        runs[static_cast<size_t>(s)] = {s, position, 1, PagesOf(s)};
      }
      model_->Forward({tokens_, runs, rows}, *cache_, {logits_.data(), nullptr, nullptr});
      const auto choosing = Clock::now();
      for (int32_t s = 0; s < options_.batch; ++s) {
        result.answers.tokens.push_back(ArgMax(logits_of(s)));
      }
      result.choosing_seconds += Seconds(choosing);
      if (step == 0) result.first_s = Seconds(start);
    }
    result.seconds = Seconds(start);
    result.answers.logits = logits_;
    return result;
  }
  std::span<const float> logits_of(int32_t sequence) const {
    const auto vocab = static_cast<size_t>(config().vocab_size);
    return std::span(logits_).subspan(static_cast<size_t>(sequence) * vocab, vocab);
  }

 private:
  static constexpr uint64_t kSeed = 1;

  Bencher(Ops& ops, const BenchOptions& options) : ops_(&ops), options_(options) {}

  std::span<const int32_t> PagesOf(int32_t sequence) const {
    const size_t each = pages_.size() / static_cast<size_t>(options_.batch);
    return std::span(pages_).subspan(static_cast<size_t>(sequence) * each, each);
  }
  // Tokens are given, not those answered: an answer that goes in circles would read the same
  // experts again and again.
  int32_t TokenAt(int32_t sequence, int64_t position) const {
    const uint64_t word =
        Mix64(Mix64(static_cast<uint64_t>(sequence) + kMixStep) + static_cast<uint64_t>(position));
    return static_cast<int32_t>(word % static_cast<uint64_t>(config().vocab_size));
  }
  static std::vector<std::byte> Copy(std::span<const std::byte> bytes) {
    return {bytes.begin(), bytes.end()};
  }
  void Restore(const std::vector<std::byte>& state, int32_t slot) {
    std::ranges::copy(state, cache_->slot(slot).begin());
  }

  Ops* ops_;
  BenchOptions options_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::KvCache> cache_;
  std::vector<int32_t> pages_;  // sequence after sequence
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;  // [batch, vocab]
  std::vector<std::byte> before_prompt_;
  std::vector<std::vector<std::byte>> before_decode_;  // by sequence
};

// Repeats and compares the answers of each with the first.
class Repeats {
 public:
  Repeats(Bencher& bench, Ops& ops, const BenchOptions& options, Progress& progress)
      : bench_(bench), ops_(ops), options_(options), progress_(progress) {}

  // The first of each phase: what later ones must answer.
  Status First(BenchReport* report) {
    const auto fill = Clock::now();
    DSV4_TRY(bench_.Fill());
    double not_counted = Seconds(fill);
    if (options_.prompt > 0) {
      bench_.Prefill();
      DSV4_TRY(Advance(options_.prompt));
      DSV4_TRY(CheckFinite("prompt"));
      const auto logits = bench_.logits_of(0);
      prompt_logits_.assign(logits.begin(), logits.end());
      DSV4_ASSIGN(report->first_token_s, SecondsSinceProcessStart());
    }
    bench_.KeepState();
    const Bencher::Decoded decoded = bench_.Decode();
    DSV4_TRY(Advance(options_.gen));
    DSV4_TRY(CheckFinite("decode"));
    if (options_.prompt == 0) {
      DSV4_ASSIGN(report->first_token_s, SecondsSinceProcessStart());
      not_counted += decoded.seconds - decoded.first_s;
    }
    report->first_token_s -= not_counted;
    answers_ = decoded.answers;
    return {};
  }

  Status Prefill(BenchPhase* phase, bool profiled) {
    if (options_.prompt == 0) return {};
    Run(phase, profiled, [&] { return bench_.Prefill(); });
    DSV4_TRY(Advance(options_.prompt));
    if (SameFloats(bench_.logits_of(0), prompt_logits_)) return {};
    return Failed("{}: the prompt's logits differ between two runs", ops_.kernels_name());
  }

  Status Decode(BenchPhase* phase, bool profiled) {
    Bencher::Decoded decoded;
    Run(phase, profiled, [&] {
      decoded = bench_.Decode();
      return decoded.seconds;
    });
    if (profiled) phase->choosing_seconds = decoded.choosing_seconds;
    DSV4_TRY(Advance(options_.gen));
    for (size_t i = 0; i < answers_.tokens.size(); ++i) {
      if (decoded.answers.tokens[i] == answers_.tokens[i]) continue;
      const auto batch = static_cast<size_t>(options_.batch);
      return Failed("{}: step {} of sequence {} answers token {} in one run and {} in another",
                    ops_.kernels_name(), i / batch, i % batch, answers_.tokens[i],
                    decoded.answers.tokens[i]);
    }
    if (SameFloats(decoded.answers.logits, answers_.logits)) return {};
    return Failed("{}: the last step's logits differ between two runs", ops_.kernels_name());
  }

 private:
  // Runs work(), which returns its seconds, and adds them to the phase: as one more repeat, or as
  // that with the profile.
  template <class Work>
  void Run(BenchPhase* phase, bool profiled, Work work) {
    if (profiled) ops_.set_profile(&phase->profile);
    const Result<int64_t> read_before = BytesReadFromDisk();
    const double seconds = work();
    const Result<int64_t> read_after = BytesReadFromDisk();
    ops_.set_profile(nullptr);
    if (profiled) {
      phase->profiled_seconds = seconds;
      return;
    }
    phase->seconds.push_back(seconds);
    // Some systems do not tell.
    if (read_before && read_after) {
      phase->disk_bytes.push_back(static_cast<double>(*read_after - *read_before));
    }
  }

  Status CheckFinite(std::string_view what) const {
    for (const float logit : bench_.logits_of(0)) {
      if (!std::isfinite(logit)) return Failed("{}: a logit is {}", what, logit);
    }
    return {};
  }
  // The tokens of a piece of work that is done, if nobody stopped it.
  Status Advance(int64_t tokens) {
    if (options_.stopped()) return Failed("interrupted");
    progress_.Update(done_ += static_cast<uint64_t>(tokens));
    return {};
  }

  Bencher& bench_;
  Ops& ops_;
  const BenchOptions& options_;
  Progress& progress_;
  std::vector<float> prompt_logits_;
  Answers answers_;
  uint64_t done_ = 0;
};

Status CheckMemory(const model::KvLayout& layout, const BenchOptions& options) {
  const int64_t pages = model::KvLayout::PagesFor(options.positions());
  const int64_t bytes = options.batch * (layout.slot_bytes() + pages * layout.page_bytes());
  DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
  if (bytes <= memory.available_bytes) return {};
  return DoesNotFit("{} sequences of {} tokens take {} MiB of KV cache, {} MiB are available",
                    options.batch, options.positions(), bytes >> 20, memory.available_bytes >> 20);
}

Status NoteMemory(const Bencher& bench, BenchReport* report) {
  DSV4_ASSIGN(report->memory, ReadProcessMemory());
  const model::KvLayout& layout = bench.layout();
  const BenchOptions& options = report->options;
  report->kv_bytes =
      options.batch * model::KvLayout::PagesFor(options.positions()) * layout.page_bytes();
  report->state_bytes = options.batch * layout.slot_bytes();
  report->workspace_bytes = bench.model().workspace_used();
  report->kv_bytes_per_token =
      static_cast<double>(layout.page_bytes()) / static_cast<double>(model::KvLayout::kPageTokens);
  return {};
}

}  // namespace

double BenchPhase::median_seconds() const { return Median(seconds); }

std::optional<double> BenchPhase::median_disk_bytes() const {
  if (disk_bytes.empty()) return std::nullopt;
  return Median(disk_bytes);
}

MachineLimits BenchReport::median_limits() const {
  std::vector<double> reads, flops;
  for (const MachineLimits& limit : limits) {
    reads.push_back(limit.read_bytes_per_s);
    flops.push_back(limit.flops);
  }
  return {Median(reads), Median(flops)};
}

Status CheckPositions(const BenchOptions& options, const model::ModelConfig& config) {
  if (options.positions() <= config.max_positions) return {};
  return UsageError(
      "--context {}, --prompt {} and --gen {} are {} tokens together, expected at most the model's "
      "{}",
      options.context, options.prompt, options.gen, options.positions(), config.max_positions);
}

Result<BenchReport> RunBench(const std::filesystem::path& folder, Ops& ops,
                             const BenchOptions& options, Progress& progress) {
  BenchReport report;
  report.kernels = ops.kernels_name();
  report.threads = ops.num_threads();
  report.options = options;
  DSV4_ASSIGN(const model::ModelConfig config, model::LoadConfig(folder));
  DSV4_TRY(CheckPositions(options, config));
  DSV4_TRY(CheckMemory(model::KvLayout(config), options));
  report.num_layers = config.num_layers;
  progress.Start("bench",
                 static_cast<uint64_t>((options.repeats + 2) * (options.prompt + options.gen)));
  DSV4_ASSIGN(Bencher bench, Bencher::Create(folder, ops, options));
  Repeats repeats(bench, ops, options, progress);
  DSV4_TRY(repeats.First(&report));
  // Before anything else takes memory.
  DSV4_TRY(NoteMemory(bench, &report));
  DSV4_ASSIGN(const AnswerCheck check, CheckAnswers(folder, ops));
  report.check_error = check.error;

  DSV4_ASSIGN(const kernels::Kernels* const set, kernels::Choose(ops.kernels_name()));
  {
    ThreadPool pool(ops.num_threads());
    report.limits.push_back(MeasureLimits(pool, *set));
    for (int32_t i = 0; i < options.repeats; ++i) {
      DSV4_TRY(repeats.Decode(&report.decode, /*profiled=*/false));
      report.limits.push_back(MeasureLimits(pool, *set));
      DSV4_TRY(repeats.Prefill(&report.prefill, /*profiled=*/false));
    }
  }
  const MachineLimits limits = report.median_limits();
  if (limits.read_bytes_per_s <= 0 || limits.flops <= 0) {
    return DoesNotFit("there is not enough memory to measure the machine's limits with");
  }
  DSV4_TRY(repeats.Decode(&report.decode, /*profiled=*/true));
  DSV4_TRY(repeats.Prefill(&report.prefill, /*profiled=*/true));
  // The model has read them; here shapes are enough.
  DSV4_ASSIGN(Checkpoint checkpoint, Checkpoint::Open(folder, {.join = false}));
  DSV4_ASSIGN(const model::ModelWeights weights,
              model::BindWeights(config, std::make_shared<Checkpoint>(std::move(checkpoint))));
  report.decode_bytes = BytesOf(config, weights, report.decode.profile, options.gen);
  progress.Finish();
  return report;
}

}  // namespace dsv4::tools
