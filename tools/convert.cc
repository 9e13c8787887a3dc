#include "checkpoint/convert.h"

#include <memory>
#include <string>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/model_path.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"

namespace dsv4::tools {
namespace {

struct Arguments {
  std::string model;
  std::string expert_dtype;
  ConvertOptions options;
  bool quiet = false;
};

Status Convert(Arguments arguments) {
  DSV4_ASSIGN(arguments.options.source, ModelPathFromArgument(arguments.model));
  arguments.options.fp8_experts = arguments.expert_dtype == "fp8";
  arguments.options.stop = &InterruptFlag();
  ProgressBar progress(arguments.quiet);
  return ConvertCheckpoint(arguments.options, progress);
}

}  // namespace

void AddConvert(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand(
      "convert", "Divide a published checkpoint into one file a rank of a model-parallel run");
  ConvertOptions& options = arguments->options;
  verb->add_option("--hf-ckpt-path", arguments->model,
                   "Folder of the checkpoint, or org/name in the Hugging Face cache")
      ->required();
  verb->add_option("--save-path", options.out, "Folder to make, apart from the source")->required();
  verb->add_option("--n-experts", options.num_experts,
                   "Routed experts of a layer; as config.json says where absent")
      ->transform(WholeNumberFrom(1));
  verb->add_option("--model-parallel", options.world, "Number of ranks")
      ->required()
      ->transform(WholeNumberFrom(1));
  verb->add_option("--expert-dtype", arguments->expert_dtype,
                   "fp8: FP4 experts become FP8, where that is exact; fp4: they stay")
      ->check(CLI::IsMember({"fp4", "fp8"}));
  verb->add_flag("--force", options.replace, "Replace an earlier checkpoint of that name");
  verb->add_flag("--quiet", arguments->quiet, "No progress bar");
  verb->footer(
      "Example: dsv4 convert --hf-ckpt-path models/demo --save-path models/demo-mp2 "
      "--model-parallel 2\n"
      "The folder appears under its name when it is complete.");
  verb->callback(
      [arguments, selected] { *selected = [arguments] { return Convert(*arguments); }; });
}

}  // namespace dsv4::tools
