// How much memory this process may use.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace dsv4 {

struct MemoryInfo {
  int64_t total_bytes = 0;      // of the machine, or the control group's limit where that is less
  int64_t available_bytes = 0;  // what may still be taken, page cache counted as free
};

// From /proc/meminfo and the memory limits of this process's control group and all above it
// (version 1 or 2). `root` stands before every path; tests give a folder.
Result<MemoryInfo> ReadMemoryInfo(const std::filesystem::path& root = "/");

}  // namespace dsv4
