#include "platform/memory_info.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> Number(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The number of a file that holds one; nullopt where there is none ("max").
std::optional<int64_t> NumberIn(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return Number(line);
}

// The number behind `key` in a file of lines "KEY NUMBER" (a colon belongs to the key).
std::optional<int64_t> NumberAfter(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = line;
    if (text.starts_with(key) && text.substr(key.size()).starts_with(' ')) {
      return Number(text.substr(key.size()));
    }
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* cache;  // the key in memory.stat of what the kernel can take back
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "file"};

// Applies the limits of the group `path` below `mount` and of all groups above it. A path that does
// not exist (a container sees its own group at the mount) leaves the mount's limit.
void ApplyGroups(const fs::path& mount, const fs::path& path, const GroupFiles& files,
                 MemoryInfo* info) {
  fs::path group = mount;
  auto part = path.begin();
  while (true) {
    const std::optional<int64_t> limit = NumberIn(group / files.limit);
    if (limit && *limit < info->total_bytes) info->total_bytes = *limit;
    if (limit) {
      const int64_t usage = NumberIn(group / files.usage).value_or(0);
      const int64_t cache = NumberAfter(group / "memory.stat", files.cache).value_or(0);
      const int64_t held = std::max<int64_t>(usage - cache, 0);
      info->available_bytes = std::min(info->available_bytes, std::max<int64_t>(*limit - held, 0));
    }
    if (part == path.end()) return;
    group /= *part++;
  }
}

}  // namespace

Result<MemoryInfo> ReadMemoryInfo(const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  const std::optional<int64_t> total = NumberAfter(meminfo, "MemTotal:");
  const std::optional<int64_t> available = NumberAfter(meminfo, "MemAvailable:");
  if (!total || !available) {
    return Failed("{}: expected MemTotal and MemAvailable, found {}", meminfo.string(),
                  total ? "no MemAvailable" : "no MemTotal");
  }
  MemoryInfo info{*total * 1024, *available * 1024};
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // NUMBER:CONTROLLERS:/PATH; version 2 has no controllers.
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers =
        fmt::format(",{},", std::string_view(line).substr(first + 1, second - first - 1));
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    if (controllers == ",,") {
      ApplyGroups(root / "sys/fs/cgroup", path, kVersion2, &info);
    } else if (controllers.find(",memory,") != std::string::npos) {
      ApplyGroups(root / "sys/fs/cgroup/memory", path, kVersion1, &info);
    }
  }
  return info;
}

}  // namespace dsv4
