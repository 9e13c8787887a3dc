// Bringing whole files into memory before they are used.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "platform/mmap_file.h"

namespace dsv4 {

struct PreloadOptions {
  // Pinned as a ThreadPool of as many pins them. Pieces of the files go to whichever is free, so
  // that the pages are spread over the NUMA nodes that these threads are on.
  int num_threads = 1;
  // Keeps the pages in memory as long as the result lives.
  bool lock = false;
  // Set from outside (a signal handler) to stop; null where nobody will.
  const std::atomic<bool>* stop = nullptr;
};

// Files that have been read into memory. Without `lock` the system may drop their pages again when
// it needs the room.
class PreloadedFiles {
 public:
  PreloadedFiles() = default;  // of no file

  // Errors: a file that cannot be read; kDoesNotFit where the files are larger than the memory that
  // this process may use (`available_bytes`), since what is read last would push out what was read
  // first, or where `lock` is beyond the limit; kFailed, "interrupted", where it was stopped.
  static Result<PreloadedFiles> Read(std::span<const std::filesystem::path> paths,
                                     int64_t available_bytes, const PreloadOptions& options,
                                     Progress& progress);

  int64_t bytes() const;

 private:
  std::vector<std::span<const std::byte>> Mappings() const;

  std::vector<MappedFile> files_;
};

}  // namespace dsv4
