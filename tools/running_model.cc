#include "tools/running_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <limits>
#include <random>
#include <utility>

#include "base/read_file.h"
#include "engine/model_executor.h"
#include "model/model.h"
#include "platform/memory_info.h"
#include "tools/bytes_text.h"
#include "tools/dialect_choice.h"
#include "tools/interrupt.h"
#include "tools/model_path.h"
#include "tools/option_checks.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

namespace fs = std::filesystem;

CLI::Validator TemperatureRange() { return RealNumber(0, 100); }
CLI::Validator TopPRange() { return RealNumber(0, 1, /*open=*/true); }

// The number under `key`, or `fallback` where it is absent or null.
Result<float> NumberOr(const json::Value& object, std::string_view key, CLI::Validator allowed,
                       float fallback) {
  const json::Value* value = object.Find(key);
  if (value == nullptr || value->is_null()) return fallback;
  const std::optional<double> number = value->to_double();
  if (!number) return BadInput("{}: expected a number, found {}", key, KindName(value->kind()));
  std::string text = value->number_text();
  if (const std::string wrong = allowed(text); !wrong.empty())
    return BadInput("{}: {}", key, wrong);
  return static_cast<float>(*number);
}

Status ParseDefaults(std::string_view text, ModelFolder* folder) {
  DSV4_ASSIGN(const json::Value config, json::Parse(text));
  if (!config.is_object()) {
    return BadInput("expected an object, found {}", KindName(config.kind()));
  }
  DSV4_ASSIGN(folder->temperature, NumberOr(config, "temperature", TemperatureRange(), 1.0f));
  DSV4_ASSIGN(folder->top_p, NumberOr(config, "top_p", TopPRange(), 1.0f));
  return {};
}

Status ReadDefaults(const fs::path& path, ModelFolder* folder) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};  // the file is optional
  DSV4_ASSIGN(const std::string text, ReadFile(path));
  Status status = ParseDefaults(text, folder);
  if (!status) return Within(path.string(), std::move(status).error());
  return {};
}

bool Speaks(const EngineFlags& flags) { return !flags.quiet && ::isatty(STDERR_FILENO) != 0; }

void PrintNotice(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (std::getline(file, line) && !line.empty()) {
    WriteStandardError(fmt::format("dsv4: {}\n", line));
  }
}

}  // namespace

void EngineFlags::AddTo(CLI::App* verb) {
  ModelFlags::AddTo(verb);
  verb->add_option("--context", context,
                   "Tokens of prompt and answer together; as many as model and memory allow")
      ->transform(WholeNumberFrom(1));
  verb->add_flag("--quiet", quiet, "No notes and no progress bars");
}

void GenerationFlags::AddTo(CLI::App* verb) {
  verb->add_option("--temperature", temperature,
                   "0 is greedy; from generation_config.json, or 1, where absent")
      ->transform(TemperatureRange());
  verb->add_option("--top-p", top_p,
                   "Sample from the most likely tokens that make up this share; from "
                   "generation_config.json, or 1, where absent")
      ->transform(TopPRange());
  verb->add_option("--seed", seed, "The same seed gives the same text; a random one where absent")
      ->transform(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
  verb->add_option("--mode", mode, "chat or thinking")
      ->check(CLI::IsMember({"chat", "thinking"}))
      ->capture_default_str();
  verb->add_option("--effort", effort, kEffortHelp)
      ->check(CLI::IsMember({"none", "high", "max"}))
      ->capture_default_str();
  verb->add_option("--stop", stop, "End the answer before this text (may be repeated)")
      ->check(NotEmpty())
      ->allow_extra_args(false);
  verb->add_flag("--special-in-text", special_in_text,
                 "Take control tokens spelt in the input as such, as the published code does");
}

Result<chat::EncodeOptions> GenerationFlags::EncodeOptions() const {
  const std::optional<chat::Mode> parsed_mode = chat::ModeFromName(mode);
  if (!parsed_mode) return UsageError("--mode: expected chat or thinking, found {}", mode);
  const std::optional<chat::Effort> parsed_effort = chat::EffortFromName(effort);
  if (!parsed_effort) {
    return UsageError("--effort: expected none, high or max, found {}", effort);
  }
  DSV4_TRY(CheckEffort(mode, effort));
  return chat::EncodeOptions{.mode = *parsed_mode, .effort = *parsed_effort};
}

Result<ModelFolder> OpenModelFolder(const EngineFlags& flags) {
  DSV4_ASSIGN(const fs::path path, ModelFolderFromArgument(flags.model));
  DSV4_ASSIGN(model::ModelConfig config, model::LoadConfig(path));
  DSV4_ASSIGN(Tokenizer tokenizer, Tokenizer::Load((path / "tokenizer.json").string()));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return BadInput("{}: tokenizer.json has {} tokens, config.json has vocab_size {}",
                    path.string(), tokenizer.vocab_size(), config.vocab_size);
  }
  ModelFolder folder{path, std::move(config), std::move(tokenizer)};
  DSV4_TRY(ReadDefaults(path / "generation_config.json", &folder));
  if (!flags.quiet) PrintNotice(path / "notice.txt");
  return folder;
}

engine::SamplingParams SamplingOf(const GenerationFlags& flags, const ModelFolder& folder) {
  engine::SamplingParams sampling;
  sampling.temperature = static_cast<float>(flags.temperature.value_or(folder.temperature));
  sampling.top_p = static_cast<float>(flags.top_p.value_or(folder.top_p));
  if (flags.seed) {
    sampling.seed = *flags.seed;
  } else {
    std::random_device device;
    sampling.seed = device();  // 32 bits: short enough to be typed again
  }
  return sampling;
}

Result<RunningModel> StartModel(const EngineFlags& flags, const ModelFolder& folder,
                                engine::MemoryWish wish, const engine::EngineOptions& options) {
  const InterruptScope interrupt;
  RunningModel running;
  // First, since locked pages and joined tensors leave less for the cache.
  DSV4_ASSIGN(running.preloaded, PreloadWeights(flags, folder.path, flags.quiet));
  if (Speaks(flags)) {
    WriteStandardError(fmt::format("dsv4: loading {}\n", folder.path.string()));
  }
  DSV4_ASSIGN(running.ops, StartOps(flags));
  DSV4_ASSIGN(auto loaded, model::Model::Load(folder.path, *running.ops, {}));
  if (interrupt.flag()) return Failed("interrupted");
  DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
  wish.budget_bytes = memory.available_bytes / 2;
  DSV4_ASSIGN(const engine::MemoryPlan plan, engine::PlanMemory(folder.config, wish));
  if (Speaks(flags)) {
    WriteStandardError(fmt::format(
        "dsv4: context {} tokens, {} at once, KV cache up to {} of {} available, {} threads\n",
        plan.context, plan.num_slots, BytesText(static_cast<double>(plan.bytes)),
        BytesText(static_cast<double>(memory.available_bytes)), flags.NumThreads()));
  }
  if (!loaded->weights_stay_in_memory() && Speaks(flags)) {
    WriteStandardError(
        "dsv4: the weights are larger than memory: experts are read from disk at each use\n");
  }
  DSV4_ASSIGN(auto executor, engine::ModelExecutor::Create(std::move(loaded), plan));
  running.engine = std::make_unique<engine::Engine>(std::move(executor), options);
  return running;
}

}  // namespace dsv4::tools
