#include "checkpoint/hub_cache.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/list_text.h"
#include "base/read_file.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelPrefix = "models--";

struct HubName {
  std::string organisation;
  std::string name;
  std::string revision;
};

bool IsPlainPart(std::string_view text) {
  return !text.empty() && text != "." && text != ".." &&
         text.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

bool IsRevision(std::string_view text) {
  while (true) {
    const size_t slash = text.find('/');
    if (!IsPlainPart(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::optional<HubName> ParseHubName(std::string_view model) {
  HubName hub{.organisation = {}, .name = {}, .revision = "main"};
  if (const size_t at = model.find('@'); at != std::string_view::npos) {
    hub.revision = model.substr(at + 1);
    model = model.substr(0, at);
  }
  const size_t slash = model.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  hub.organisation = model.substr(0, slash);
  hub.name = model.substr(slash + 1);
  if (!IsPlainPart(hub.organisation) || !IsPlainPart(hub.name) || !IsRevision(hub.revision)) {
    return std::nullopt;
  }
  return hub;
}

// Names in the folder; empty where it cannot be read.
std::vector<std::string> Names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "org/name" of every model in the cache.
std::vector<std::string> CachedModels(const fs::path& hub_cache) {
  std::vector<std::string> models;
  for (const std::string& name : Names(hub_cache)) {
    if (!name.starts_with(kModelPrefix)) continue;
    const std::string_view model = std::string_view(name).substr(kModelPrefix.size());
    const size_t dashes = model.find("--");
    if (dashes == std::string_view::npos) continue;
    models.push_back(fmt::format("{}/{}", model.substr(0, dashes), model.substr(dashes + 2)));
  }
  return models;
}

// The hash a reference file holds, or nullopt where there is no such file.
std::optional<std::string> ReadReference(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  std::string hash = ReadFile(file).value_or("");
  hash.erase(std::find_if(hash.begin(), hash.end(), [](char c) { return c == '\n' || c == '\r'; }),
             hash.end());
  return hash;
}

Result<fs::path> Snapshot(const fs::path& folder, const std::string& model,
                          const std::string& revision) {
  std::error_code error;
  const fs::path snapshots = folder / "snapshots";
  const fs::path reference = folder / "refs" / revision;
  const std::optional<std::string> hash = ReadReference(reference);
  if (!hash) {
    if (IsPlainPart(revision) && fs::is_directory(snapshots / revision, error)) {
      return snapshots / revision;
    }
    return BadInput(
        "{}: no revision {} in the cache: neither {} nor {} is there; revisions: {}; snapshots: {}",
        model, revision, reference.string(), (snapshots / revision).string(),
        ListText(Names(folder / "refs")), ListText(Names(snapshots)));
  }
  if (!IsPlainPart(*hash) || !fs::is_directory(snapshots / *hash, error)) {
    return BadInput("{}: {} names the snapshot \"{}\", but {} holds {}", model, reference.string(),
                    *hash, snapshots.string(), ListText(Names(snapshots)));
  }
  return snapshots / *hash;
}

std::unexpected<Error> NotThere(std::string_view model, int code, std::string_view besides) {
  std::unexpected<Error> error = CannotBeOpened(model, code);
  error.error().message += fmt::format("; {}", besides);
  return error;
}

}  // namespace

Result<fs::path> ResolveModel(std::string_view model, const fs::path& hub_cache) {
  std::error_code error;
  if (fs::exists(fs::status(fs::path(model), error))) return fs::path(model);
  const int code = error.value();
  const std::optional<HubName> hub = ParseHubName(model);
  if (!hub) {
    return NotThere(model, code, "and it is no org/name or org/name@revision");
  }
  const fs::path folder =
      hub_cache / fmt::format("{}{}--{}", kModelPrefix, hub->organisation, hub->name);
  if (!fs::is_directory(folder, error)) {
    return NotThere(model, code,
                    fmt::format("nor is {} there; models in the Hugging Face cache: {}",
                                folder.string(), ListText(CachedModels(hub_cache))));
  }
  return Snapshot(folder, fmt::format("{}/{}", hub->organisation, hub->name), hub->revision);
}

}  // namespace dsv4
