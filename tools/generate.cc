// `dsv4 generate`: answers a file of prompts, all in one batch.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/read_file.h"
#include "model/kv_cache.h"
#include "tools/commands.h"
#include "tools/dialect_choice.h"
#include "tools/interrupt.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"
#include "tools/prompt_file.h"
#include "tools/running_model.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

constexpr int32_t kMaxAtOnce = 256;

struct Arguments {
  EngineFlags model;
  GenerationFlags generation;
  std::string input_file;
  int64_t max_new_tokens = 300;
  std::optional<int32_t> num_logprobs;
  bool jsonl = false;
  bool raw = false;
};

struct Completion {
  std::string prompt;
  uint64_t id = 0;
  int64_t prompt_tokens = 0;
  std::string text;
  std::vector<service::GenerationEvent::Token> tokens;
  std::optional<service::GenerationEvent> last;
};

Result<std::string> ReadInput(const std::string& path) {
  return path == "-" ? ReadStandardInput() : ReadFile(path);
}

// JSON has no NaN and no infinity, which the logits of a broken model hold.
json::Value LogprobJson(float logprob) {
  return std::isfinite(logprob) ? json::Value::Double(logprob) : json::Value();
}

json::Value LogprobsJson(const Completion& completion) {
  json::Value list = json::Value::MakeArray();
  for (const auto& token : completion.tokens) {
    json::Value top = json::Value::MakeArray();
    for (const engine::TokenLogprob& other : token.top) {
      top.Append(json::Value::MakeObject(
          {{"id", json::Value::Int(other.token)}, {"logprob", LogprobJson(other.logprob)}}));
    }
    list.Append(json::Value::MakeObject({{"id", json::Value::Int(token.id)},
                                         {"logprob", LogprobJson(token.logprob)},
                                         {"top", std::move(top)}}));
  }
  return list;
}

json::Value ToJson(const Completion& completion, const engine::SamplingParams& sampling) {
  using json::Value;
  const service::GenerationEvent& last = *completion.last;
  Value ids = Value::MakeArray();
  for (const auto& token : completion.tokens) ids.Append(Value::Int(token.id));
  Value object = Value::MakeObject({
      {"prompt", Value::String(completion.prompt)},
      {"text", Value::String(completion.text)},
      {"token_ids", std::move(ids)},
      {"finish_reason", Value::String(std::string(FinishReasonName(last.finish)))},
  });
  if (last.stop) object.Set("stop", Value::String(*last.stop));
  if (!last.error.empty()) object.Set("error", Value::String(last.error));
  object.Set("seed", Value::NumberText(std::to_string(sampling.seed)));
  object.Set("prompt_tokens", Value::Int(last.usage.prompt_tokens));
  object.Set("completion_tokens", Value::Int(last.usage.completion_tokens));
  object.Set("time_to_first_token_s", Value::Double(last.usage.first_token_seconds));
  object.Set("tokens_per_s", Value::Double(last.usage.tokens_per_second()));
  if (sampling.num_top_logprobs) object.Set("logprobs", LogprobsJson(completion));
  return object;
}

Status Print(const Completion& completion, const engine::SamplingParams& sampling, bool jsonl) {
  if (jsonl) return WriteStandardOutput(json::Dump(ToJson(completion, sampling)) + "\n");
  if (completion.last->finish == engine::FinishReason::kError) return {};
  return WriteStandardOutput(
      fmt::format("Prompt: {}\nCompletion: {}\n\n", completion.prompt, completion.text));
}

Status FirstError(const std::vector<Completion>& completions) {
  for (size_t i = 0; i < completions.size(); ++i) {
    const std::string& error = completions[i].last->error;
    if (!error.empty()) return Failed("prompt {}: {}", i + 1, error);
  }
  return {};
}

// The ids of a prompt as one user message in `dialect`; of its text alone where that is null.
Result<std::vector<int32_t>> PromptIds(const chat::WireDialect* dialect, const Tokenizer& tokenizer,
                                       const std::string& prompt,
                                       const chat::EncodeOptions& options,
                                       AddedTokenText in_content) {
  if (dialect == nullptr) return tokenizer.Encode(prompt, in_content);
  json::Value message = json::Value::MakeObject(
      {{"role", json::Value::String("user")}, {"content", json::Value::String(prompt)}});
  return service::EncodeChat(*dialect, tokenizer, json::Value::MakeArray({std::move(message)}),
                             options, in_content);
}

Status StartAll(const Arguments& arguments, const engine::SamplingParams& sampling,
                std::vector<std::vector<int32_t>> ids, service::Generator& generator,
                std::vector<Completion>* completions) {
  for (size_t i = 0; i < ids.size(); ++i) {
    Completion* const completion = &(*completions)[i];
    completion->prompt_tokens = static_cast<int64_t>(ids[i].size());
    auto started = generator.Start({.prompt = std::move(ids[i]),
                                    .sampling = sampling,
                                    .max_new_tokens = arguments.max_new_tokens,
                                    .stop = arguments.generation.stop},
                                   [completion](const service::GenerationEvent& event) {
                                     using Kind = service::GenerationEvent::Kind;
                                     if (event.kind == Kind::kToken) {
                                       completion->tokens.push_back(event.token);
                                     }
                                     if (event.kind == Kind::kContent) {
                                       completion->text += event.text;
                                     }
                                     if (event.kind == Kind::kFinish) completion->last = event;
                                   });
    if (!started) return Within(fmt::format("prompt {}", i + 1), std::move(started).error());
    completion->id = *started;
  }
  return {};
}

// Runs until all are finished; prints each once those before it are.
Status RunAll(const Arguments& arguments, const engine::SamplingParams& sampling,
              engine::Engine& engine, service::Generator& generator,
              std::vector<Completion>& completions) {
  ProgressBar progress(arguments.model.quiet);
  uint64_t total = 0;
  for (const Completion& completion : completions) {
    total += static_cast<uint64_t>(completion.prompt_tokens +
                                   std::min(arguments.max_new_tokens, engine.context()));
  }
  progress.Start("generating", total);
  bool interrupted = false;
  size_t printed = 0;
  while (generator.Step()) {
    if (!interrupted && InterruptFlag()) {
      interrupted = true;
      for (const Completion& completion : completions) generator.Cancel(completion.id);
    }
    const engine::Stats& stats = engine.stats();
    progress.Update(stats.num_rows);
    if (!arguments.jsonl) continue;
    for (; printed < completions.size() && completions[printed].last; ++printed) {
      DSV4_TRY(Print(completions[printed], sampling, true));
    }
    if (std::fflush(stdout) != 0) return Failed("standard output cannot be written");
  }
  progress.Finish();
  for (; printed < completions.size(); ++printed) {
    DSV4_TRY(Print(completions[printed], sampling, arguments.jsonl));
  }
  if (interrupted) return Failed("interrupted");
  return FirstError(completions);
}

Status Generate(const Arguments& arguments) {
  DSV4_ASSIGN(const chat::EncodeOptions encode, arguments.generation.EncodeOptions());
  DSV4_ASSIGN(const std::string input, ReadInput(arguments.input_file));
  DSV4_ASSIGN(const ModelFolder folder, OpenModelFolder(arguments.model));
  const chat::WireDialect* dialect = nullptr;
  if (!arguments.raw) {
    DSV4_ASSIGN(dialect, DialectOf(folder));
  }
  std::vector<Completion> completions;
  std::vector<std::vector<int32_t>> ids;
  engine::MemoryWish wish{.context = arguments.model.context};
  int64_t longest = 0;
  // More than the model can hold says no more, and could not be added up.
  const int64_t max_new_tokens = std::min(arguments.max_new_tokens, folder.config.max_positions);
  for (std::string& prompt : SplitPrompts(input)) {
    auto prompt_ids =
        PromptIds(dialect, folder.tokenizer, prompt, encode, arguments.generation.in_content());
    if (!prompt_ids) {
      return Within(fmt::format("prompt {}", completions.size() + 1),
                    std::move(prompt_ids).error());
    }
    const int64_t length = static_cast<int64_t>(prompt_ids->size()) + max_new_tokens;
    longest = std::max(longest, length);
    // Whole pages, so that all have theirs.
    wish.total_tokens += model::KvLayout::PagesFor(length) * model::KvLayout::kPageTokens;
    completions.emplace_back().prompt = std::move(prompt);
    ids.push_back(std::move(*prompt_ids));
  }
  if (completions.empty()) {
    return BadInput("{}: holds no prompt",
                    arguments.input_file == "-" ? "standard input" : arguments.input_file);
  }
  if (wish.context == 0) wish.context = std::min(longest, folder.config.max_positions);
  wish.num_sequences =
      static_cast<int32_t>(std::min<size_t>(completions.size(), size_t{kMaxAtOnce}));
  engine::SamplingParams sampling = SamplingOf(arguments.generation, folder);
  sampling.num_top_logprobs = arguments.num_logprobs;
  DSV4_ASSIGN(const RunningModel running,
              StartModel(arguments.model, folder, wish, {.context = wish.context}));
  InterruptFlag();
  service::Generator generator(*running.engine, folder.tokenizer, dialect);
  DSV4_TRY(StartAll(arguments, sampling, std::move(ids), generator, &completions));
  return RunAll(arguments, sampling, *running.engine, generator, completions);
}

}  // namespace

void AddGenerate(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand("generate", "Answer a file of prompts in one batch");
  arguments->model.AddTo(verb);
  verb->add_option("--input-file", arguments->input_file,
                   "Prompts with a blank line between them; - is standard input")
      ->required();
  verb->add_option("--max-new-tokens", arguments->max_new_tokens, "Tokens of an answer at most")
      ->transform(WholeNumberFrom(1))
      ->capture_default_str();
  arguments->generation.AddTo(verb);
  verb->add_flag("--raw", arguments->raw,
                 "Go on with the prompts' text as it is, without the chat format")
      ->excludes(verb->get_option("--mode"))
      ->excludes(verb->get_option("--effort"));
  CLI::Option* const jsonl =
      verb->add_flag("--jsonl", arguments->jsonl,
                     "One JSON object a line for each prompt, in order, as told below");
  verb->add_option("--logprobs", arguments->num_logprobs,
                   "With --jsonl: log-probabilities of each token and of the K most likely ones")
      ->transform(WholeNumber(0, 1000))
      ->needs(jsonl);
  verb->footer(
      "Each prompt becomes one user message. Output: Prompt: …, Completion: …, a blank line.\n"
      "--jsonl: {prompt, text, token_ids, finish_reason, stop?, error?, seed, prompt_tokens,\n"
      "completion_tokens, time_to_first_token_s, tokens_per_s, logprobs?}. finish_reason is "
      "\"stop\" "
      "(the\n"
      "model ended, or the text came to `stop`), \"length\" (--max-new-tokens), \"context\" (it is "
      "full),\n"
      "\"cancelled\" (Ctrl-C) or \"error\" (which `error` tells). logprobs: for each token {id, "
      "logprob,\n"
      "top: the K most likely {id, logprob}}; a logprob that is not finite is null.\n"
      "Exit code 1 where a prompt ends with an error; an answer cut at a limit is none.\n"
      "Examples: dsv4 generate --model models/demo --input-file prompts.txt --temperature 0\n"
      "          echo 'What is 6 x 7?' | dsv4 generate --model models/demo --input-file - --jsonl");
  verb->callback(
      [arguments, selected] { *selected = [arguments] { return Generate(*arguments); }; });
}

}  // namespace dsv4::tools
