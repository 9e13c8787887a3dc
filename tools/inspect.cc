// `dsv4 inspect`: what a checkpoint is, what it needs, whether it fits here and whether it is
// sound.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "checkpoint/safetensors.h"
#include "model/model.h"
#include "model/weights.h"
#include "platform/memory_info.h"
#include "platform/processors.h"
#include "tools/commands.h"
#include "tools/inspect_report.h"
#include "tools/model_path.h"
#include "tools/progress_bar.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

constexpr size_t kUnusedNamed = 20;

struct Arguments {
  std::string model;
  bool json = false;
  bool verify = false;
  bool quiet = false;
};

void CountTensors(const Checkpoint& checkpoint, InspectReport* report) {
  for (const TensorInfo& tensor : checkpoint.file_tensors()) {
    InspectReport::TypeTotal& total = report->types[tensor.dtype];
    total.num_tensors += 1;
    total.bytes += static_cast<int64_t>(tensor.data.size());
  }
  report->num_tensors = static_cast<int64_t>(checkpoint.file_tensors().size());
  report->num_files = static_cast<int64_t>(checkpoint.files().size());
  report->file_bytes = static_cast<int64_t>(checkpoint.data_bytes());
  report->world = checkpoint.converted_world().value_or(1);
}

void Verify(const Checkpoint& checkpoint, InspectReport* report, Progress& progress) {
  progress.Start("verify", checkpoint.data_bytes());
  uint64_t done = 0;
  for (const TensorInfo& tensor : checkpoint.file_tensors()) {
    const TensorFaults faults = FindFaults(tensor, report->config.num_routed_experts);
    if (faults.any()) {
      report->faulty.push_back(
          {checkpoint.files()[tensor.file].filename().string(), tensor.name, faults});
    }
    done += tensor.data.size();
    progress.Update(done);
  }
  progress.Finish();
}

Result<InspectReport> Describe(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  InspectReport report;
  report.model = folder;
  DSV4_ASSIGN(report.config, model::LoadConfig(folder));
  report.parameters = model::CountParameters(report.config);
  CountTensors(checkpoint, &report);
  // Not those of the files: what every rank has is used once.
  uint64_t weights_bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) weights_bytes += tensor.data.size();
  DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
  report.memory =
      model::PlanMemory(report.config, static_cast<int64_t>(weights_bytes),
                        model::Model::WorkspaceBytes(
                            report.config, model::Model::Options{}.max_rows, DefaultThreads()),
                        memory.available_bytes);
  report.memory.joined_bytes = static_cast<int64_t>(checkpoint.joined_bytes());
  return report;
}

void WarnOfUnused(const std::vector<std::string>& unused) {
  for (size_t i = 0; i < std::min(unused.size(), kUnusedNamed); ++i) {
    WriteStandardError(fmt::format("dsv4: warning: tensor {} is not used\n", unused[i]));
  }
  if (unused.size() > kUnusedNamed) {
    WriteStandardError(
        fmt::format("dsv4: warning: {} more tensors are not used\n", unused.size() - kUnusedNamed));
  }
}

Status Inspect(const Arguments& arguments) {
  DSV4_ASSIGN(const std::filesystem::path folder, ModelFolderFromArgument(arguments.model));
  DSV4_ASSIGN(Checkpoint opened, Checkpoint::Open(folder, {.join = false}));
  const auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  DSV4_ASSIGN(InspectReport report, Describe(folder, *checkpoint));
  if (arguments.verify) {
    report.verified = true;
    ProgressBar progress(arguments.quiet);
    Verify(*checkpoint, &report, progress);
  }
  // A checkpoint that cannot be bound is still described, so that its faults are seen.
  Result<model::ModelWeights> weights = model::BindWeights(report.config, checkpoint);
  if (weights) {
    report.unused = std::move(weights->unused);
  } else {
    report.error = weights.error().message;
  }
  WarnOfUnused(report.unused);
  DSV4_TRY(WriteStandardOutput(arguments.json ? ReportJson(report) : ReportText(report)));
  DSV4_TRY(std::move(weights));
  if (!report.faulty.empty()) {
    return BadInput("{}: {} tensors hold values that no weight may have, the first is {}",
                    folder.string(), report.faulty.size(), report.faulty.front().tensor);
  }
  return {};
}

}  // namespace

void AddInspect(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand(
      "inspect", "Describe a checkpoint: configuration, sizes, memory plan, soundness");
  verb->add_option("--model", arguments->model,
                   "Folder of the checkpoint, or org/name in the Hugging Face cache")
      ->required();
  verb->add_flag("--json", arguments->json, "One JSON object instead of a table");
  verb->add_flag("--verify", arguments->verify,
                 "Read all tensors; report NaN, infinities, scale codes that are not finite and "
                 "expert tables out of range (exit code 3 if there are any)");
  verb->add_flag("--quiet", arguments->quiet, "No progress bar");
  verb->footer(
      "Example: dsv4 inspect --model models/demo --verify\n"
      "The verdict is for one sequence of the model's full context: \"fits in memory\", \"weights\n"
      "page from disk\" (works, but reads experts again and again) or \"does not fit\"; or why "
      "the\n"
      "tensors do not make the model (exit code 3, in --json: error).\n"
      "--json: model, config, parameters, tensors, files, ranks, types, memory, unused and, with\n"
      "--verify, faults; sizes in bytes.");
  verb->callback(
      [arguments, selected] { *selected = [arguments] { return Inspect(*arguments); }; });
}

}  // namespace dsv4::tools
