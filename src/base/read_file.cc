#include "base/read_file.h"

#include <array>
#include <fstream>

namespace dsv4 {

Result<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Failed("{}: cannot be read", path.string());
  std::string bytes;
  std::array<char, 1 << 16> buffer;
  // Through the stream, which turns a failed read into its state: a buffer's iterator throws.
  while (file.read(buffer.data(), buffer.size()) || file.gcount() > 0) {
    bytes.append(buffer.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return Failed("{}: cannot be read", path.string());
  return bytes;
}

}  // namespace dsv4
