#include "platform/mmap_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/read_file.h"

namespace dsv4 {
namespace {

std::string ErrnoText() { return std::generic_category().message(errno); }

Result<std::span<const std::byte>> Map(const std::filesystem::path& path, int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return Failed("{}: its size cannot be read: {}", path.string(), ErrnoText());
  }
  if (S_ISDIR(status.st_mode)) return CannotBeOpened(path, EISDIR);
  if (!S_ISREG(status.st_mode)) return BadInput("{}: expected a regular file", path.string());
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return std::span<const std::byte>{};
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return Failed("{}: {} bytes cannot be mapped: {}", path.string(), size, ErrnoText());
  }
  return std::span(static_cast<const std::byte*>(address), size);
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  // Without O_NONBLOCK a pipe of this name would block here for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return CannotBeOpened(path, errno);
  auto bytes = Map(path, fd);
  ::close(fd);
  if (!bytes) return std::unexpected(std::move(bytes).error());
  return MappedFile(*bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace dsv4
