// model.safetensors.index.json: which file of a sharded checkpoint holds which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsv4 {

inline constexpr std::string_view kIndexFile = "model.safetensors.index.json";

struct CheckpointIndex {
  struct Entry {
    std::string tensor;
    uint32_t file = 0;  // index into files
  };
  std::vector<std::string> files;  // relative to the folder, in order of first mention
  std::vector<Entry> entries;      // in the order of the text
};

// Names are unique, and every file is a relative path without ".." (a link to elsewhere is fine:
// the Hugging Face cache is made of them).
Result<CheckpointIndex> ParseIndex(std::string_view json);

}  // namespace dsv4
