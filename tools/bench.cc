// `dsv4 bench`: how fast a model runs here, against what the machine can do.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "tools/bench_report.h"
#include "tools/bench_run.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/model_flags.h"
#include "tools/model_path.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

struct Arguments {
  ModelFlags model;
  BenchOptions bench;
  bool json = false;
  bool quiet = false;
};

Status Bench(Arguments arguments) {
  arguments.bench.stop = &InterruptFlag();
  DSV4_ASSIGN(const std::filesystem::path folder, ModelFolderFromArgument(arguments.model.model));
  DSV4_ASSIGN(const PreloadedFiles preloaded,
              PreloadWeights(arguments.model, folder, arguments.quiet));
  DSV4_ASSIGN(const std::unique_ptr<Ops> ops, StartOps(arguments.model));
  ProgressBar progress(arguments.quiet);
  DSV4_ASSIGN(const BenchReport report, RunBench(folder, *ops, arguments.bench, progress));
  return WriteStandardOutput(arguments.json ? BenchJson(report) : BenchText(report));
}

}  // namespace

void AddBench(CLI::App& app, Selected* selected) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 40;
  auto arguments = std::make_shared<Arguments>();
  BenchOptions& bench = arguments->bench;
  CLI::App* const verb = app.add_subcommand(
      "bench", "Measure prefill and decode of a model against the machine's limits");
  arguments->model.AddTo(verb);
  verb->add_option("--prompt", bench.prompt, "Tokens to compute before decoding; 0 for none")
      ->transform(WholeNumber(0, kMostTokens))
      ->capture_default_str();
  verb->add_option("--gen", bench.gen, "Steps to decode")
      ->transform(WholeNumber(1, kMostTokens))
      ->capture_default_str();
  verb->add_option("--context", bench.context,
                   "Tokens that stand before the prompt, their cache filled with synthetic entries")
      ->transform(WholeNumber(0, kMostTokens))
      ->capture_default_str();
  verb->add_option("--batch", bench.batch, "Sequences to decode together")
      ->transform(WholeNumber(1, 512))
      ->capture_default_str();
  verb->add_option("--repeats", bench.repeats, "Runs of each kind, of which medians are shown")
      ->transform(WholeNumber(1, 1000))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "One JSON object instead of tables");
  verb->add_flag("--quiet", arguments->quiet, "No progress bar");
  verb->footer(
      "Example: dsv4 bench --model models/demo --prompt 64 --gen 8 --context 500\n"
      "The roof is the bytes read for a token over the read bandwidth, the peak the multiply-adds "
      "of\n"
      "the kernel set; both are measured in the same run with the same threads. Before anything "
      "is\n"
      "measured, logits are compared with those of the kernel set ref; a difference, or another\n"
      "answer in a later run, is a failure. docs/performance.md explains every figure.");
  verb->callback([arguments, selected] { *selected = [arguments] { return Bench(*arguments); }; });
}

}  // namespace dsv4::tools
