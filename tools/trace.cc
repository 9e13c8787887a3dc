// dsv4 trace: runs given tokens and writes logits and inner values to a safetensors file.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

#include "base/read_file.h"
#include "checkpoint/safetensors.h"
#include "model/model.h"
#include "tools/commands.h"
#include "tools/model_flags.h"
#include "tools/model_path.h"
#include "tools/standard_io.h"
#include "tools/trace_case.h"

namespace dsv4::tools {
namespace {

struct TraceOptions {
  ModelFlags model;
  std::string cases;
  std::string out;
  bool list_taps = false;
};

// `text` is what stands in the file `path`.
Result<std::vector<TraceCase>> ParseCases(const std::string& path, const std::string& text,
                                          const model::Model& model) {
  std::istringstream file(text);
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
  if (cases.empty()) return BadInput("{}: holds no case", path);
  return cases;
}

Status Trace(const TraceOptions& options) {
  if (!options.list_taps && (options.cases.empty() || options.out.empty())) {
    return UsageError("trace: --cases and --out are needed (or --list-taps)");
  }
  std::string text;
  if (!options.list_taps) {
    DSV4_ASSIGN(text, ReadFile(options.cases));
  }
  DSV4_ASSIGN(const std::filesystem::path folder, ModelFolderFromArgument(options.model.model));
  DSV4_ASSIGN(const PreloadedFiles preloaded,
              PreloadWeights(options.model, folder, /*quiet=*/false));
  DSV4_ASSIGN(const std::unique_ptr<Ops> ops, StartOps(options.model));
  DSV4_ASSIGN(const std::unique_ptr<model::Model> model,
              model::Model::Load(folder, *ops, {.max_rows = 1024}));
  if (options.list_taps) {
    return WriteStandardOutput(fmt::format("{}\n", fmt::join(model->TapNames(), "\n")));
  }
  DSV4_ASSIGN(const std::vector<TraceCase> cases, ParseCases(options.cases, text, *model));
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
  options->model.AddTo(command);
  command->add_option("--cases", options->cases, "File of cases, one JSON object a line");
  command->add_option("--out", options->out, "The safetensors file to write");
  command->add_flag("--list-taps", options->list_taps, "List the inner values of this model");
  command->footer(
      R"(A case is one of
  {"id","tokens":[…],"prefill":n? or "chunks":[…]?,
   "logits":"all"|"last"|"none"|[positions],"mtp":bool?,"taps":["L3.H",…]?}
  {"id","batch":[[…],[…]],"prefill":n?,"logits":…}
  {"id","tokens":[…],"block":3 or "mtp","h":"FILE.safetensors#TENSOR","taps":[…]}
  {"id","block":"head","h":"FILE.safetensors#TENSOR","logits":…}
The first forward takes "prefill" tokens, or the first ones take those of "chunks"; what is left
runs one token at a time. Without both, all tokens are one forward.
"logits" ("all" where absent) selects rows by position, those of ID/logits and with "mtp"
those of ID/mtp_logits too.
Row p of ID/mtp_logits is made of the H of position p and token p + 1: the last position has none,
and "last" means the one before it.
Example:
  echo '{"id":"a","tokens":[1,2,3],"logits":"last","taps":["L0.H"]}' > cases.jsonl
  dsv4 trace --model models/demo --cases cases.jsonl --out trace.safetensors)");
  command->callback([=] { *selected = [=] { return Trace(*options); }; });
}

}  // namespace dsv4::tools
