// A file mapped for reading. The pages are the page cache's: nothing is copied, and what is not
// touched is not read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace dsv4 {

// The mapping lives as long as the object; moving keeps the addresses. Where the
// file shrinks meanwhile, or its disk fails, the next access raises SIGBUS.
class MappedFile {
 public:
  // Only regular files (or links to them); an empty file maps to an empty span.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace dsv4
