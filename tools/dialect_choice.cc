#include "tools/dialect_choice.h"

#include <filesystem>
#include <utility>

#include "model/config.h"
#include "tools/model_path.h"

namespace dsv4::tools {
namespace {

Result<const chat::WireDialect*> DialectNamedIn(const std::filesystem::path& folder,
                                                const model::ModelConfig& config) {
  auto dialect = chat::FindWireDialect(config.model_type);
  if (dialect) return dialect;
  return Within(fmt::format("{}: model_type", (folder / "config.json").string()),
                std::move(dialect).error());
}

}  // namespace

Result<const chat::WireDialect*> DialectOf(const ModelFolder& folder) {
  DSV4_ASSIGN(const chat::WireDialect* const dialect, DialectNamedIn(folder.path, folder.config));
  Status checked = service::CheckControlTokens(*dialect, folder.tokenizer);
  if (checked) return dialect;
  return Within((folder.path / "tokenizer.json").string(), std::move(checked).error());
}

Status CheckEffort(std::string_view mode, std::string_view effort) {
  if (effort == "none" || mode == "thinking") return {};
  return UsageError("--effort {} needs --mode thinking", effort);
}

void DialectFlags::AddTo(CLI::App* verb) {
  CLI::Option* const from_model = verb->add_option(
      "--model", model,
      "Speak as this model does: its folder, or org/name in the Hugging Face cache");
  verb->add_option("--dialect", dialect, "Speak as this family of models does")
      ->check(CLI::IsMember(chat::WireDialectNames()))
      ->excludes(from_model)
      ->capture_default_str();
}

Result<const chat::WireDialect*> DialectFlags::Find() const {
  if (model.empty()) return chat::FindWireDialect(dialect);
  DSV4_ASSIGN(const std::filesystem::path folder, ModelPathFromArgument(model));
  DSV4_ASSIGN(const model::ModelConfig config, model::LoadConfig(folder));
  return DialectNamedIn(folder, config);
}

}  // namespace dsv4::tools
