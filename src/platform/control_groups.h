// The Linux control groups that this process is in.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace dsv4 {

// Folders of this process's group and of all groups above it, in the unified hierarchy or in the
// older one of `controller` ("cpu"). Some may not exist. `root` is / but in tests.
std::vector<std::filesystem::path> UnifiedGroupFolders(const std::filesystem::path& root);
std::vector<std::filesystem::path> OldGroupFolders(const std::filesystem::path& root,
                                                   std::string_view controller);

}  // namespace dsv4
