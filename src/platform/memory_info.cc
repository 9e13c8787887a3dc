#include "platform/memory_info.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "platform/control_groups.h"

namespace dsv4 {
namespace {

// The number after `name` in lines of "name: 123 kB" or "name 123".
std::optional<int64_t> Field(const std::filesystem::path& file, std::string_view name) {
  std::ifstream in(file);
  std::string word;
  int64_t value = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    if (words >> word >> value && word == name) return value;
  }
  return std::nullopt;
}

std::optional<int64_t> Number(const std::filesystem::path& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // also "max"
}

// How one kind of control group names its limit, and in memory.stat what cannot be dropped:
// anonymous memory and locked pages, of all groups below it too. Pages of files can be dropped.
struct GroupFields {
  std::string_view limit;
  std::string_view anonymous;
  std::string_view locked;
};
constexpr GroupFields kUnified = {"memory.max", "anon", "unevictable"};
constexpr GroupFields kOld = {"memory.limit_in_bytes", "total_rss", "total_unevictable"};

// Lowers `info` to what the control group in `folder` allows.
void ApplyGroup(const std::filesystem::path& folder, const GroupFields& fields, MemoryInfo* info) {
  const std::optional<int64_t> limit = Number(folder / fields.limit);
  if (!limit) return;
  const std::filesystem::path stat = folder / "memory.stat";
  const int64_t taken =
      Field(stat, fields.anonymous).value_or(0) + Field(stat, fields.locked).value_or(0);
  info->total_bytes = std::min(info->total_bytes, *limit);
  info->available_bytes = std::min(info->available_bytes, std::max<int64_t>(*limit - taken, 0));
}

}  // namespace

Result<MemoryInfo> ReadMemoryInfo(const std::filesystem::path& root) {
  const std::filesystem::path meminfo = root / "proc/meminfo";
  const std::optional<int64_t> total = Field(meminfo, "MemTotal:");
  const std::optional<int64_t> available = Field(meminfo, "MemAvailable:");
  if (!total || !available) {
    return Failed("{}: expected MemTotal and MemAvailable, not found", meminfo.string());
  }
  MemoryInfo info{*total * 1024, *available * 1024};
  for (const auto& folder : UnifiedGroupFolders(root)) ApplyGroup(folder, kUnified, &info);
  for (const auto& folder : OldGroupFolders(root, "memory")) ApplyGroup(folder, kOld, &info);
  return info;
}

}  // namespace dsv4
