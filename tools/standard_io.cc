#include "tools/standard_io.h"

#include <poll.h>
#include <unistd.h>

#include <cstdio>

namespace dsv4::tools {

Result<std::string> ReadStandardInput() {
  std::string bytes;
  char buffer[1 << 16];
  // Not until nothing more is read: at a terminal that would wait for a second Ctrl-D.
  while (std::feof(stdin) == 0 && std::ferror(stdin) == 0) {
    bytes.append(buffer, std::fread(buffer, 1, sizeof buffer, stdin));
  }
  if (std::ferror(stdin) != 0) return Failed("standard input cannot be read");
  return bytes;
}

Status WriteStandardOutput(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return {};
  return Failed("standard output cannot be written");
}

Status WriteTextToStandardOutput(std::string_view text) {
  DSV4_TRY(WriteStandardOutput(text));
  const bool ends_a_line = text.empty() || text.ends_with('\n');
  return ends_a_line || ::isatty(STDOUT_FILENO) == 0 ? Status() : WriteStandardOutput("\n");
}

bool ReaderOfStandardOutputIsGone() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return std::ferror(stdout) != 0 && ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

void WriteStandardError(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace dsv4::tools
