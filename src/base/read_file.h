// A whole small file at once, and what is said of every input file that cannot be opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace dsv4 {

// kBadInput, "PATH: cannot be opened: REASON"; `code` is the errno.
std::unexpected<Error> CannotBeOpened(const std::filesystem::path& path, int code);

// kBadInput where `path` cannot be opened, as no folder can, or holds more than `most_bytes`;
// kFailed where it cannot be read to its end.
Result<std::string> ReadFile(const std::filesystem::path& path, uint64_t most_bytes = UINT64_MAX);

}  // namespace dsv4
