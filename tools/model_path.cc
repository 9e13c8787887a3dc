#include "tools/model_path.h"

#include <cstdlib>

#include "checkpoint/hub_cache.h"

namespace dsv4::tools {
namespace {

namespace fs = std::filesystem;

// The variable's value; empty where it is not set.
std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

fs::path HubCache() {
  if (const auto cache = Variable("HF_HUB_CACHE"); !cache.empty()) return ExpandHome(cache);
  if (const auto home = Variable("HF_HOME"); !home.empty()) return ExpandHome(home) / "hub";
  if (const auto cache = Variable("XDG_CACHE_HOME"); !cache.empty()) {
    return ExpandHome(cache) / "huggingface" / "hub";
  }
  return ExpandHome("~/.cache/huggingface/hub");
}

}  // namespace

fs::path ExpandHome(std::string_view path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return fs::path(Variable("HOME")) / path.substr(path.size() > 1 ? 2 : 1);
}

Result<fs::path> ModelPathFromArgument(const std::string& model) {
  return ResolveModel(model, HubCache());
}

Result<fs::path> ModelFolderFromArgument(const std::string& model) {
  DSV4_ASSIGN(fs::path path, ModelPathFromArgument(model));
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return path;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return BadInput("{}: expected the folder of a model, found a file; give the folder: {}",
                  path.string(), folder.string());
}

}  // namespace dsv4::tools
