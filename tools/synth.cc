#include "checkpoint/synth.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"

namespace dsv4::tools {
namespace {

struct Arguments {
  std::string preset;
  std::vector<std::string> settings;
  SynthOptions options;
  bool quiet = false;
};

Result<std::vector<SynthSetting>> Settings(const std::vector<std::string>& texts) {
  std::vector<SynthSetting> settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return UsageError("--set: expected key=value, found {}", text);
    }
    settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return settings;
}

// Rows and columns under one scale of what is written in FP8.
constexpr int32_t kScaleBlock = 128;

// What the loader would refuse is refused before it is written.
Status CheckLoadable(const SynthModel& model) {
  Result<model::ModelConfig> config = model::ParseConfig(json::Parse(model.config_json()).value());
  if (config && config->linear_format != model::LinearFormat::kBf16 &&
      (config->weight_block_rows != kScaleBlock || config->weight_block_cols != kScaleBlock)) {
    config =
        BadInput("quantization_config.weight_block_size: expected [{0}, {0}], found [{1}, {2}]",
                 kScaleBlock, config->weight_block_rows, config->weight_block_cols);
  }
  if (!config) return UsageError("--set: {}", config.error().message);
  return {};
}

Status Synth(Arguments arguments) {
  DSV4_ASSIGN(const std::vector<SynthSetting> settings, Settings(arguments.settings));
  DSV4_ASSIGN(const SynthModel model, SynthModel::Make(arguments.preset, settings));
  DSV4_TRY(CheckLoadable(model));
  arguments.options.stop = &InterruptFlag();
  ProgressBar progress(arguments.quiet);
  return WriteSynth(model, arguments.options, progress);
}

}  // namespace

void AddSynth(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb =
      app.add_subcommand("synth", "Write a deterministic checkpoint of random weights");
  verb->add_option("--preset", arguments->preset, "flash, pro, tiny-flash or tiny-pro")->required();
  verb->add_option("--set", arguments->settings,
                   "key=value …: other values for keys of config.json (may be repeated)");
  verb->add_option("--seed", arguments->options.seed, "Seed of all weights")
      ->transform(WholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  verb->add_option("--shard-bytes", arguments->options.shard_bytes,
                   "A file's data end before the tensor that would exceed this")
      ->transform(WholeNumberFrom(1))
      ->capture_default_str();
  verb->add_option("--out", arguments->options.out, "Folder to make")->required();
  verb->add_option("--tokenizer", arguments->options.tokenizer,
                   "File copied to DIR/tokenizer.json");
  verb->add_flag("--force", arguments->options.replace,
                 "Replace an earlier checkpoint of that name");
  verb->add_flag("--quiet", arguments->quiet, "No progress bar");
  verb->footer(
      "Example: dsv4 synth --preset tiny-flash --set vocab_size=1024 --out models/tiny\n"
      "The folder appears under its name when it is complete.");
  verb->callback([arguments, selected] { *selected = [arguments] { return Synth(*arguments); }; });
}

}  // namespace dsv4::tools
