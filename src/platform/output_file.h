// Files and folders that appear under their final name only when they are complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace dsv4 {

// A file being written. It is made under `path`.tmp-PID and renamed by Commit; without Commit the
// destructor removes it. Only a regular file is replaced, or the one that a link names. A full disk
// is kDoesNotFit, any other failed write kFailed.
class OutputFile {
 public:
  static Result<OutputFile> Create(const std::filesystem::path& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Unbuffered: give it large pieces.
  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }
  // Closes and renames. The bytes are the kernel's then; no fsync.
  Status Commit();

 private:
  OutputFile(std::filesystem::path path, std::filesystem::path temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  uint64_t written_ = 0;
  int fd_ = -1;
};

// A folder being filled, beside its final name: FOLDER.tmp-PID, renamed by Commit; without Commit
// the destructor removes it with all it holds.
class OutputFolder {
 public:
  // What may already stand under the final name.
  enum class Existing {
    kEmpty,    // nothing, or an empty folder
    kReplace,  // also one of *.safetensors, config.json and other *.json; it is removed at Commit
  };
  static Result<OutputFolder> Create(const std::filesystem::path& folder, Existing existing);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&& other) noexcept;
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  ~OutputFolder();

  // Where to write until Commit.
  const std::filesystem::path& temporary() const { return temporary_; }
  // An error (kDoesNotFit) where the disk has less than `bytes` free.
  Status CheckSpace(uint64_t bytes) const;
  Status Commit();

 private:
  OutputFolder(std::filesystem::path folder, std::filesystem::path temporary, Existing existing)
      : folder_(std::move(folder)), temporary_(std::move(temporary)), existing_(existing) {}

  std::filesystem::path folder_;
  std::filesystem::path temporary_;  // empty once committed or moved from
  Existing existing_ = Existing::kEmpty;
};

// A whole small file at once.
Status WriteTextFile(const std::filesystem::path& path, std::string_view text);

}  // namespace dsv4
