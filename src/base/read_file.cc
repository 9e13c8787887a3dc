#include "base/read_file.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace dsv4 {

std::unexpected<Error> CannotBeOpened(const std::filesystem::path& path, int code) {
  return BadInput("{}: cannot be opened: {}", path.string(), std::generic_category().message(code));
}

Result<std::string> ReadFile(const std::filesystem::path& path, uint64_t most_bytes) {
  std::error_code ignored;
  // It could be opened, but not read.
  if (std::filesystem::is_directory(path, ignored)) return CannotBeOpened(path, EISDIR);
  std::ifstream file(path, std::ios::binary);
  if (!file) return CannotBeOpened(path, errno);
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  // Through the stream, which turns a failed read into its state: a buffer's iterator throws.
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    bytes.append(buffer.data(), static_cast<size_t>(file.gcount()));
    if (bytes.size() > most_bytes) {
      return BadInput("{}: expected at most {} bytes, found more", path.string(), most_bytes);
    }
  }
  if (file.bad()) {
    return Failed("{}: cannot be read: {}", path.string(), std::generic_category().message(errno));
  }
  return bytes;
}

}  // namespace dsv4
