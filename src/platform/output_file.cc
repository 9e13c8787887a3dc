#include "platform/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

fs::path WithSuffix(const fs::path& path, std::string_view suffix) {
  fs::path result = path;
  result += fmt::format(".{}-{}", suffix, ::getpid());
  return result;
}

// A trailing slash would put the temporary name inside the folder.
fs::path WithoutTrailingSlash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

std::unexpected<Error> WriteError(const fs::path& path, uint64_t written, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return MakeError(full ? ErrorKind::kDoesNotFit : ErrorKind::kFailed,
                   "{}: cannot be written after {} bytes: {}", path.string(), written,
                   std::generic_category().message(code));
}

Status Rename(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    return Failed("{}: cannot be renamed to {}: {}", from.string(), to.string(), error.message());
  }
  return {};
}

// Nothing but what a checkpoint is made of may be replaced: a mistyped --out must not cost a home.
Status CheckReplaceable(const fs::path& folder) {
  std::error_code error;
  bool has_tensors = false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path extension = entry.path().extension();
    has_tensors |= extension == ".safetensors";
    if (!entry.is_regular_file(error) || (extension != ".safetensors" && extension != ".json")) {
      return UsageError("{}: not replaced, because it holds {}, which is no checkpoint file",
                        folder.string(), entry.path().filename().string());
    }
  }
  if (error) return Failed("{}: cannot be listed: {}", folder.string(), error.message());
  if (!has_tensors || !fs::exists(folder / "config.json", error)) {
    return UsageError(
        "{}: not replaced, because it is no checkpoint: expected config.json and *.safetensors",
        folder.string());
  }
  return {};
}

Status CheckFinalName(const fs::path& folder, OutputFolder::Existing existing) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (status.type() == fs::file_type::not_found) return {};
  if (error) return Failed("{}: {}", folder.string(), error.message());
  if (!fs::is_directory(status)) {
    return UsageError("{}: exists and is no folder", folder.string());
  }
  const bool empty = fs::is_empty(folder, error);
  if (error) return Failed("{}: cannot be listed: {}", folder.string(), error.message());
  if (empty) return {};
  if (existing == OutputFolder::Existing::kEmpty) {
    return UsageError("{}: exists and is not empty (--force replaces it)", folder.string());
  }
  return CheckReplaceable(folder);
}

}  // namespace

Result<OutputFile> OutputFile::Create(const fs::path& path) {
  // A rename would put a file in the place of /dev/null, or of a link instead of what it names.
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return UsageError("{}: exists and is no regular file", path.string());
  }
  if (fs::is_symlink(path, error) && fs::exists(status)) return Create(fs::canonical(path, error));
  fs::path temporary = WithSuffix(path, "tmp");
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) {
    return Failed("{}: cannot be made: {}", path.string(), std::generic_category().message(errno));
  }
  return OutputFile(path, std::move(temporary), fd);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      written_(other.written_),
      fd_(std::exchange(other.fd_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(written_, other.written_);
  std::swap(fd_, other.fd_);
  return *this;
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  DSV4_CHECK(fd_ >= 0, "{} is closed", path_.string());
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return WriteError(path_, written_, count < 0 ? errno : ENOSPC);
    written_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status OutputFile::Commit() {
  DSV4_CHECK(fd_ >= 0, "{} is closed", path_.string());
  // Network file systems report a full disk here.
  const int closed = ::close(std::exchange(fd_, -1));
  const int code = errno;
  Status status;
  if (closed != 0) {
    status = WriteError(path_, written_, code);
  } else {
    status = Rename(temporary_, path_);
  }
  if (!status) ::unlink(temporary_.c_str());
  return status;
}

Result<OutputFolder> OutputFolder::Create(const fs::path& folder, Existing existing) {
  if (folder.empty()) return UsageError("a folder to make: expected a name, found none");
  const fs::path name = WithoutTrailingSlash(folder);
  DSV4_TRY(CheckFinalName(name, existing));
  fs::path temporary = WithSuffix(name, "tmp");
  std::error_code error;
  if (name.has_parent_path()) fs::create_directories(name.parent_path(), error);
  // A leftover of a killed process that had this very id.
  if (!error) fs::remove_all(temporary, error);
  if (!error) fs::create_directory(temporary, error);
  if (error) return Failed("{}: cannot be made: {}", temporary.string(), error.message());
  return OutputFolder(name, std::move(temporary), existing);
}

OutputFolder::OutputFolder(OutputFolder&& other) noexcept
    : folder_(std::move(other.folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      existing_(other.existing_) {}

OutputFolder& OutputFolder::operator=(OutputFolder&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(temporary_, other.temporary_);
  std::swap(existing_, other.existing_);
  return *this;
}

OutputFolder::~OutputFolder() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

Status OutputFolder::CheckSpace(uint64_t bytes) const {
  std::error_code error;
  const fs::space_info space = fs::space(temporary_, error);
  if (error || space.available >= bytes) return {};
  return DoesNotFit("{}: {} bytes are to be written, {} are free", folder_.string(), bytes,
                    space.available);
}

Status OutputFolder::Commit() {
  DSV4_CHECK(!temporary_.empty(), "{} is committed", folder_.string());
  // Again: it may have been filled while we wrote.
  DSV4_TRY(CheckFinalName(folder_, existing_));
  std::error_code error;
  const bool exists = fs::exists(folder_, error) && !fs::is_empty(folder_, error);
  if (!exists) {
    // rename replaces an empty folder.
    DSV4_TRY(Rename(temporary_, folder_));
    temporary_.clear();
    return {};
  }
  const fs::path old = WithSuffix(folder_, "old");
  DSV4_TRY(Rename(folder_, old));
  if (Status renamed = Rename(temporary_, folder_); !renamed) {
    DSV4_TRY(Rename(old, folder_));
    return renamed;
  }
  temporary_.clear();
  fs::remove_all(old, error);
  if (error)
    return Failed("{}: the old folder cannot be removed: {}", old.string(), error.message());
  return {};
}

Status WriteTextFile(const fs::path& path, std::string_view text) {
  DSV4_ASSIGN(OutputFile file, OutputFile::Create(path));
  DSV4_TRY(file.Write(text));
  return file.Commit();
}

}  // namespace dsv4
