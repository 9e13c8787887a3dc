// Where the model of the command line is.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dsv4::tools {

// "~" and "~/…" mean the home folder, as in huggingface_hub and in shells.
std::filesystem::path ExpandHome(std::string_view path);

// A path, or org/name[@revision] in the Hugging Face cache: $HF_HUB_CACHE, else $HF_HOME/hub, else
// $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub.
Result<std::filesystem::path> ModelPathFromArgument(const std::string& model);

// The same, and it must be a folder: one file of a model is refused with its folder's name.
Result<std::filesystem::path> ModelFolderFromArgument(const std::string& model);

}  // namespace dsv4::tools
