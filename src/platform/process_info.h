// What the system says of this process.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace dsv4 {

// Resident memory.
struct ProcessMemory {
  int64_t peak_bytes = 0;       // the most that was ever resident
  int64_t anonymous_bytes = 0;  // now, of no file
  int64_t file_bytes = 0;       // now, of mapped files
};

// `root` is / but in tests.
Result<ProcessMemory> ReadProcessMemory(const std::filesystem::path& root = "/");

// Bytes that all threads of this process have had read from disks, ahead or at a touch.
Result<int64_t> BytesReadFromDisk(const std::filesystem::path& root = "/");

// Seconds since the process was started; up to a hundredth too many, since the system keeps the
// start in whole hundredths.
Result<double> SecondsSinceProcessStart(const std::filesystem::path& root = "/");

}  // namespace dsv4
