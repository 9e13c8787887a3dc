#include "tools/running_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include "engine/model_executor.h"
#include "model/model.h"
#include "ops/cpu_ops.h"
#include "platform/memory_info.h"
#include "tools/kernel_choice.h"
#include "tools/model_path.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

namespace fs = std::filesystem;

// The number under `key`, or `fallback` where it is absent or null.
Result<float> NumberOr(const json::Value& object, std::string_view key, float fallback) {
  const json::Value* value = object.Find(key);
  if (value == nullptr || value->is_null()) return fallback;
  const std::optional<double> number = value->to_double();
  if (!number) return BadInput("{}: expected a number, found {}", key, KindName(value->kind()));
  return static_cast<float>(*number);
}

Status ReadDefaults(const fs::path& path, ModelFolder* folder) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};  // the file is optional
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto parsed = json::Parse(text);
  if (!parsed) return Within(path.string(), std::move(parsed).error());
  auto temperature = NumberOr(*parsed, "temperature", 1.0f);
  if (!temperature) return Within(path.string(), std::move(temperature).error());
  auto top_p = NumberOr(*parsed, "top_p", 1.0f);
  if (!top_p) return Within(path.string(), std::move(top_p).error());
  folder->temperature = *temperature;
  folder->top_p = *top_p;
  return {};
}

bool Speaks(const ModelFlags& flags) { return !flags.quiet && ::isatty(STDERR_FILENO) != 0; }

void PrintNotice(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (std::getline(file, line) && !line.empty()) {
    WriteStandardError(fmt::format("dsv4: {}\n", line));
  }
}

}  // namespace

void ModelFlags::AddTo(CLI::App* verb) {
  verb->add_option("--model", model, "Folder of the model, or org/name in the Hugging Face cache")
      ->required();
  verb->add_option("--threads", threads, "Threads to compute with; as many as there are processors")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--context", context,
                   "Tokens of prompt and answer together; as many as model and memory allow")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--quiet", quiet, "No notes and no progress bars");
}

void GenerationFlags::AddTo(CLI::App* verb) {
  verb->add_option("--temperature", temperature,
                   "0 is greedy; from generation_config.json, or 1, where absent")
      ->check(CLI::Range(0.0, 100.0));
  verb->add_option("--top-p", top_p, "Sample from the most likely tokens that make up this share")
      ->check(CLI::Range(0.0, 1.0));
  verb->add_option("--seed", seed, "The same seed gives the same text; a random one where absent");
  verb->add_option("--mode", mode, "chat or thinking")
      ->check(CLI::IsMember({"chat", "thinking"}))
      ->capture_default_str();
  verb->add_option("--effort", effort, "none, high or max: how hard to think in thinking mode")
      ->check(CLI::IsMember({"none", "high", "max"}))
      ->capture_default_str();
  verb->add_option("--stop", stop, "End the answer before this text (may be repeated)")
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
  return chat::EncodeOptions{.mode = *parsed_mode, .effort = *parsed_effort};
}

Result<ModelFolder> OpenModelFolder(const ModelFlags& flags) {
  DSV4_ASSIGN(const fs::path path, ModelPathFromArgument(flags.model));
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

Result<RunningModel> StartModel(const ModelFlags& flags, const ModelFolder& folder,
                                engine::MemoryWish wish, const engine::EngineOptions& options) {
  DSV4_ASSIGN(const kernels::Kernels* kernels, KernelsFromEnvironment());
  const int threads = flags.threads > 0
                          ? flags.threads
                          : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
  wish.budget_bytes = memory.available_bytes / 2;
  DSV4_ASSIGN(const engine::MemoryPlan plan, engine::PlanMemory(folder.config, wish));
  if (Speaks(flags)) {
    WriteStandardError(fmt::format(
        "dsv4: loading {}: context {} tokens, {} at once, KV cache up to {} MiB of {} MiB "
        "available, {} threads\n",
        folder.path.string(), plan.context, plan.num_slots, plan.bytes >> 20,
        memory.available_bytes >> 20, threads));
  }
  RunningModel running;
  running.ops = MakeCpuOps(*kernels, threads);
  DSV4_ASSIGN(auto loaded, model::Model::Load(folder.path, *running.ops, {}));
  DSV4_ASSIGN(auto executor, engine::ModelExecutor::Create(std::move(loaded), plan));
  running.engine = std::make_unique<engine::Engine>(std::move(executor), options);
  return running;
}

}  // namespace dsv4::tools
