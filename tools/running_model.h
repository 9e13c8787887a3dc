// A model ready to generate, and the flags of the verbs that do.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "model/config.h"
#include "service/generation.h"
#include "text/chat_encoding.h"
#include "text/tokenizer.h"
#include "tools/model_flags.h"

namespace dsv4::tools {

struct EngineFlags : ModelFlags {
  int64_t context = 0;  // 0: as much as fits
  bool quiet = false;

  void AddTo(CLI::App* verb);
};

struct GenerationFlags {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<uint64_t> seed;  // a random one where absent
  std::string mode = "chat";
  std::string effort = "none";
  std::vector<std::string> stop;
  bool special_in_text = false;

  void AddTo(CLI::App* verb);
  Result<chat::EncodeOptions> EncodeOptions() const;
  AddedTokenText in_content() const {
    return special_in_text ? AddedTokenText::kTokens : AddedTokenText::kPlain;
  }
};

// What a model folder holds besides weights.
struct ModelFolder {
  std::filesystem::path path;
  model::ModelConfig config;
  Tokenizer tokenizer;
  // From generation_config.json; 1.0 where it says nothing.
  float temperature = 1.0f;
  float top_p = 1.0f;
};

// `model`: a folder or org/name. Prints the first line of the folder's notice.txt, where there is
// one, to standard error unless flags.quiet.
Result<ModelFolder> OpenModelFolder(const EngineFlags& flags);

// The flags, the folder's defaults where they say nothing, and the seed, drawn where none is given.
engine::SamplingParams SamplingOf(const GenerationFlags& flags, const ModelFolder& folder);

// Owns what an engine stands on.
struct RunningModel {
  PreloadedFiles preloaded;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<engine::Engine> engine;
};

// Loads the weights, into memory where the flags ask for it (a signal ends that as an error), and
// reserves the KV cache: what is wanted, within half of the memory at hand. Says so on standard
// error where that is a terminal and flags.quiet is not set.
Result<RunningModel> StartModel(const EngineFlags& flags, const ModelFolder& folder,
                                engine::MemoryWish wish, const engine::EngineOptions& options);

}  // namespace dsv4::tools
