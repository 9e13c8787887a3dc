// A whole small file at once.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace dsv4 {

// An error (kFailed) where `path` cannot be opened or read, as no folder can.
Result<std::string> ReadFile(const std::filesystem::path& path);

}  // namespace dsv4
