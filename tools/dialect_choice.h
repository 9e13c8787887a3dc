// Which wire dialect a verb speaks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/wire_dialect.h"
#include "tools/running_model.h"

namespace dsv4::tools {

// The dialect that the folder's config.json names, each control token of which must be one of its
// tokenizer. Without one there is no chat with the model, though it generates.
Result<const chat::WireDialect*> DialectOf(const ModelFolder& folder);

// How hard to think is of thinking alone: a usage error for "high" and "max" in another mode.
Status CheckEffort(std::string_view mode, std::string_view effort);
inline constexpr char kEffortHelp[] =
    "none, high or max: how hard to think, with --mode thinking. Of DeepSeek-V4, high adds nothing "
    "to the prompt and max a paragraph";

// Of the verbs that work without a model too.
struct DialectFlags {
  std::string model;  // whose config.json names the dialect; empty: the dialect below
  std::string dialect = chat::DeepSeekV4().model_type;

  void AddTo(CLI::App* verb);
  Result<const chat::WireDialect*> Find() const;
};

}  // namespace dsv4::tools
