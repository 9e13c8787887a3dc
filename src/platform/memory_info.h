// How much memory there is for this process.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace dsv4 {

struct MemoryInfo {
  int64_t total_bytes = 0;
  // What can be had without swapping: free memory and caches, within the limits of the control
  // groups.
  int64_t available_bytes = 0;
};

// `root` is / but in tests.
Result<MemoryInfo> ReadMemoryInfo(const std::filesystem::path& root = "/");

}  // namespace dsv4
