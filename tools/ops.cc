// `dsv4 ops`: the kernel sets of this binary.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "kernels/dispatch.h"
#include "tools/commands.h"
#include "tools/ops_golden.h"

namespace dsv4::tools {
namespace {

Status Golden(const std::string& folder) {
  int64_t num_failed = 0;
  for (const kernels::Kernels* kernels : kernels::Runnable()) {
    DSV4_ASSIGN(const std::vector<GoldenResult> results, RunKernelGolden(*kernels, folder));
    for (const GoldenResult& result : results) {
      num_failed += !result.verdict.ok;
      fmt::print("{} {} {} {}: {}\n", result.verdict.ok ? "ok  " : "FAIL", kernels->name,
                 result.file, result.name, result.verdict.text);
    }
  }
  if (num_failed > 0) return Failed("{} comparisons failed", num_failed);
  return {};
}

// "product: ref avx2", one line per entry: the sets compiled in that have their own implementation.
Status List() {
  for (const kernels::Entry& entry : kernels::Entries()) {
    fmt::print("{}:", entry.name);
    for (const kernels::Kernels* kernels : kernels::Compiled()) {
      if (entry.own(*kernels)) fmt::print(" {}", kernels->name);
    }
    fmt::print("\n");
  }
  return {};
}

}  // namespace

void AddOps(CLI::App& app, Selected* selected) {
  CLI::App* const ops = app.add_subcommand("ops", "Checks and lists the kernel sets");
  ops->require_subcommand(1);
  ops->footer("Example: dsv4 ops list");
  CLI::App* const list = ops->add_subcommand(
      "list", "Names every operation and the kernel sets of this binary that have their own");
  list->footer("Example: dsv4 ops list");
  list->callback([=] { *selected = List; });
  CLI::App* const golden = ops->add_subcommand(
      "golden",
      "Compares every kernel set that runs here with golden vectors; exit code 1 if one differs");
  golden->footer("Example: dsv4 ops golden tests/golden/model/kernels");
  const auto folder = std::make_shared<std::string>();
  golden->add_option("DIR", *folder, "Folder of kernels.json and its *.safetensors")->required();
  golden->callback([=] { *selected = [=] { return Golden(*folder); }; });
}

}  // namespace dsv4::tools
