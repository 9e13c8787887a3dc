// dsv4 trace: runs given tokens and writes logits and inner values to a safetensors file.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "checkpoint/safetensors.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "ops/cpu_ops.h"
#include "tools/commands.h"
#include "tools/kernel_choice.h"
#include "tools/model_path.h"
#include "tools/option_checks.h"
#include "tools/trace_case.h"

namespace dsv4::tools {
namespace {

struct TraceOptions {
  std::string model;
  std::string cases;
  std::string out;
  int threads = 0;
  bool list_taps = false;
};

Result<std::vector<TraceCase>> ReadCases(const std::string& path, const model::Model& model) {
  std::ifstream file(path);
  if (!file) return BadInput("{}: cannot be opened", path);
  std::vector<TraceCase> cases;
  std::set<std::string> ids;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{} line {}", path, number);
    Result<json::Value> value = json::Parse(line);
    if (!value) return Within(where, std::move(value).error());
    Result<TraceCase> trace = ParseTraceCase(*value, model);
    if (!trace) return Within(where, std::move(trace).error());
    if (!ids.insert(trace->id).second) {
      return BadInput("{}: id {} stands twice", where, trace->id);
    }
    cases.push_back(std::move(*trace));
  }
  if (file.bad()) return Failed("{}: cannot be read", path);
  return cases;
}

Status Trace(const TraceOptions& options) {
  DSV4_ASSIGN(const std::filesystem::path folder, ModelPathFromArgument(options.model));
  DSV4_ASSIGN(const kernels::Kernels* kernels, KernelsFromEnvironment());
  const int threads = options.threads > 0
                          ? options.threads
                          : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const std::unique_ptr<Ops> ops = MakeCpuOps(*kernels, threads);
  DSV4_ASSIGN(const std::unique_ptr<model::Model> model,
              model::Model::Load(folder, *ops, {.max_rows = 1024}));
  if (options.list_taps) {
    for (const std::string& name : model->TapNames()) fmt::print("{}\n", name);
    return {};
  }
  if (options.cases.empty() || options.out.empty()) {
    return UsageError("trace: --cases and --out are needed (or --list-taps)");
  }
  DSV4_ASSIGN(const std::vector<TraceCase> cases, ReadCases(options.cases, *model));
  std::vector<NamedTensor> tensors;
  for (const TraceCase& trace : cases) {
    Result<std::vector<NamedTensor>> answer = RunTraceCase(*model, trace);
    if (!answer) return Within(fmt::format("case {}", trace.id), std::move(answer).error());
    for (NamedTensor& tensor : *answer) tensors.push_back(std::move(tensor));
  }
  std::vector<TensorToWrite> to_write;
  for (const NamedTensor& tensor : tensors) {
    to_write.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
  }
  return WriteSafetensors(options.out, to_write);
}

}  // namespace

void AddTrace(CLI::App& app, Selected* selected) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* command = app.add_subcommand(
      "trace", "Run given tokens; write logits and inner values to a safetensors file");
  command->add_option("--model", options->model, "Model folder, or org/name in the local cache")
      ->required();
  command->add_option("--cases", options->cases, "File of cases, one JSON object a line");
  command->add_option("--out", options->out, "The safetensors file to write");
  command->add_option("--threads", options->threads, "Threads (default: all cores)")
      ->transform(WholeNumber(1, 1024));
  command->add_flag("--list-taps", options->list_taps, "List the inner values of this model");
  command->footer(
      "A case is one of\n"
      "  "
      "{\"id\",\"tokens\":[…],\"prefill\":n?,\"chunks\":[…]?,\"logits\":\"all\"|\"last\"|["
      "positions],"
      "\"mtp\":bool?,\"taps\":[\"L3.H\",…]?}\n"
      "  {\"id\",\"batch\":[[…],[…]],\"prefill\":n?,\"logits\":…}\n"
      "  {\"id\",\"tokens\":[…],\"block\":3 (or \"mtp\" or "
      "\"head\"),\"h\":\"FILE.safetensors#TENSOR\","
      "\"taps\":[…]}\n"
      "Example:\n"
      "  echo '{\"id\":\"a\",\"tokens\":[1,2,3],\"logits\":\"last\",\"taps\":[\"L0.H\"]}' > "
      "cases.jsonl\n"
      "  dsv4 trace --model models/demo --cases cases.jsonl --out trace.safetensors");
  command->callback([=] { *selected = [=] { return Trace(*options); }; });
}

}  // namespace dsv4::tools
