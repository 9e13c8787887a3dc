// `dsv4 ops`: the kernel sets of this binary.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <regex>

#include "kernels/dispatch.h"
#include "platform/processors.h"
#include "tests/support/kernel_checks.h"
#include "tools/commands.h"
#include "tools/kernel_choice.h"
#include "tools/ops_golden.h"
#include "tools/ops_perf.h"
#include "tools/option_checks.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

Status Golden(const std::string& folder) {
  int64_t num_failed = 0;
  for (const kernels::Kernels* kernels : kernels::Runnable()) {
    DSV4_ASSIGN(const std::vector<GoldenResult> results, RunKernelGolden(*kernels, folder));
    for (const GoldenResult& result : results) {
      num_failed += !result.verdict.ok;
      DSV4_TRY(WriteStandardOutput(fmt::format("{} {} {} {}: {}\n",
                                               result.verdict.ok ? "ok  " : "FAIL", kernels->name,
                                               result.file, result.name, result.verdict.text)));
    }
  }
  if (num_failed > 0) return Failed("{} comparisons failed", num_failed);
  return {};
}

// The sets compiled in, those that run here first and the fastest of them, the default, last; then
// "product: ref avx2", one line per entry: the sets that have their own implementation.
Status List() {
  const std::span<const kernels::Kernels* const> runnable = kernels::Runnable();
  std::vector<const kernels::Kernels*> sets(runnable.begin(), runnable.end());
  for (const kernels::Kernels* set : kernels::Compiled()) {
    if (std::ranges::find(runnable, set) == runnable.end()) sets.push_back(set);
  }
  std::string text;
  for (size_t i = 0; i < sets.size(); ++i) {
    const kernels::Kernels* const set = sets[i];
    text += fmt::format("set {}: {}{}\n", set->name,
                        i < runnable.size() ? "runs here" : "does not run here",
                        set == runnable.back() ? ", the default" : "");
  }
  for (const kernels::Entry& entry : kernels::Entries()) {
    text += fmt::format("{}:", entry.name);
    for (const kernels::Kernels* set : sets) {
      if (entry.own(*set)) text += fmt::format(" {}", set->name);
    }
    text += '\n';
  }
  return WriteStandardOutput(text);
}

// What `-o` and `-p` choose.
struct Selection {
  std::string op;
  std::string pattern;
  int threads = DefaultThreads();

  // The pattern, once both options make sense.
  Result<std::regex> Regex() const {
    const auto entries = kernels::Entries();
    if (!op.empty() && std::ranges::find(entries, op, &kernels::Entry::name) == entries.end()) {
      return UsageError("--op \"{}\" is no operation; `dsv4 ops list` names them", op);
    }
    try {
      return std::regex(pattern);
    } catch (const std::regex_error& error) {
      return UsageError("--pattern \"{}\" is no regular expression: {}", pattern, error.what());
    }
  }
};

Status Check(const Selection& selection) {
  DSV4_ASSIGN(const std::regex pattern, selection.Regex());
  int64_t num_run = 0;
  int64_t num_failed = 0;
  for (const kernels::Kernels* set : kernels::Runnable()) {
    for (const test::KernelCheck& check : test::KernelChecks()) {
      if (!selection.op.empty() && check.op != selection.op) continue;
      if (!std::regex_search(check.name, pattern)) continue;
      const test::Verdict verdict = check.run(*set);
      ++num_run;
      num_failed += !verdict.ok;
      DSV4_TRY(WriteStandardOutput(fmt::format("{} {} {} {}: {}\n", verdict.ok ? "ok  " : "FAIL",
                                               set->name, check.op, check.name, verdict.text)));
    }
  }
  if (num_run == 0) return UsageError("no check matches");
  if (num_failed > 0) return Failed("{} of {} checks failed", num_failed, num_run);
  return {};
}

Status Perf(const Selection& selection) {
  DSV4_ASSIGN(const std::regex pattern, selection.Regex());
  DSV4_ASSIGN(const kernels::Kernels* const set, KernelsFromEnvironment());
  const Processors processors = ReadProcessors();
  ThreadPool pool(selection.threads);
  // The pool binds the threads it starts to the other cores. Without this, one that never yields,
  // as with real-time priority, may share its core with this thread for good.
  if (selection.threads <= processors.num_cores()) PinThisThread(processors.cores[0]);
  return PrintPerf(pool, *set, selection.op, pattern);
}

void AddSelection(CLI::App* command, const std::shared_ptr<Selection>& selection) {
  command->add_option("-o,--op", selection->op, "Only this operation");
  command->add_option("-p,--pattern", selection->pattern,
                      "Only cases whose name has a match of this regular expression");
}

}  // namespace

void AddOps(CLI::App& app, Selected* selected) {
  CLI::App* const ops = app.add_subcommand("ops", "Checks, measures and lists the kernel sets");
  ops->require_subcommand(1);
  ops->footer("Example: dsv4 ops list");
  CLI::App* const list = ops->add_subcommand(
      "list",
      "Names the kernel sets of this binary, and for every operation those that have their own");
  list->footer("Example: dsv4 ops list");
  list->callback([=] { *selected = List; });
  CLI::App* const golden = ops->add_subcommand(
      "golden",
      "Compares every kernel set that runs here with golden vectors; exit code 1 if one differs");
  golden->footer("Example: dsv4 ops golden tests/golden/model/kernels");
  const auto folder = std::make_shared<std::string>();
  golden->add_option("DIR", *folder, "Folder of kernels.json and its *.safetensors")->required();
  golden->callback([=] { *selected = [=] { return Golden(*folder); }; });
  const auto selection = std::make_shared<Selection>();
  CLI::App* const check = ops->add_subcommand(
      "check", "Compares every kernel set that runs here with ref; exit code 1 if one differs");
  check->footer("Example: dsv4 ops check -o product -p 'fp4 1 x'");
  AddSelection(check, selection);
  check->callback([=] { *selected = [=] { return Check(*selection); }; });
  CLI::App* const perf = ops->add_subcommand(
      "perf", "Times the kernel set of DSV4_KERNELS against this machine's limits");
  perf->footer(
      "Example: DSV4_KERNELS=avx2 dsv4 ops perf -p '^fp[48] 1 x 4096 x 4096$' --threads 2");
  AddSelection(perf, selection);
  perf->add_option("--threads", selection->threads,
                   "Threads; where absent, one for each physical core that the process may use")
      ->transform(WholeNumber(1, 1024));
  perf->callback([=] { *selected = [=] { return Perf(*selection); }; });
}

}  // namespace dsv4::tools
