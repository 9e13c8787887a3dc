#include "platform/control_groups.h"

#include <fstream>
#include <string>

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

// `base` and the folders below it on the way to `path`, which is absolute.
std::vector<fs::path> FoldersDownTo(const fs::path& base, std::string_view path) {
  std::vector<fs::path> folders = {base};
  for (const fs::path& part : fs::path(path.substr(1))) folders.push_back(folders.back() / part);
  return folders;
}

bool Lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

// Calls visit(controllers, path) for each line "ID:CONTROLLERS:/PATH"; the unified hierarchy has no
// controllers.
template <class Visit>
void ForEachGroup(const fs::path& root, Visit visit) {
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string_view text = line;
    visit(text.substr(first + 1, second - first - 1), text.substr(second + 1));
  }
}

}  // namespace

std::vector<fs::path> UnifiedGroupFolders(const fs::path& root) {
  std::vector<fs::path> folders;
  ForEachGroup(root, [&](std::string_view controllers, std::string_view path) {
    if (controllers.empty()) folders = FoldersDownTo(root / "sys/fs/cgroup", path);
  });
  return folders;
}

std::vector<fs::path> OldGroupFolders(const fs::path& root, std::string_view controller) {
  std::vector<fs::path> folders;
  ForEachGroup(root, [&](std::string_view controllers, std::string_view path) {
    if (!Lists(controllers, controller)) return;
    folders = FoldersDownTo(root / "sys/fs/cgroup" / controllers, path);
  });
  return folders;
}

}  // namespace dsv4
