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

// Lowers `info` to what the control group in `folder` allows. Pages of files can be dropped, so
// only anonymous memory counts as taken.
void ApplyGroup(const std::filesystem::path& folder, MemoryInfo* info) {
  const std::optional<int64_t> limit = Number(folder / "memory.max");
  if (!limit) return;
  const int64_t taken = Field(folder / "memory.stat", "anon").value_or(0);
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
  for (const std::filesystem::path& folder : UnifiedGroupFolders(root)) ApplyGroup(folder, &info);
  return info;
}

}  // namespace dsv4
