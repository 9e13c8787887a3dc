#include "tools/standard_io.h"

#include <cstdio>

namespace dsv4::tools {

Result<std::string> ReadStandardInput() {
  std::string bytes;
  char buffer[1 << 16];
  while (const size_t num_read = std::fread(buffer, 1, sizeof buffer, stdin)) {
    bytes.append(buffer, num_read);
  }
  if (std::ferror(stdin) != 0) return Failed("standard input cannot be read");
  return bytes;
}

Status WriteStandardOutput(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return {};
  return Failed("standard output cannot be written");
}

void WriteStandardError(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace dsv4::tools
