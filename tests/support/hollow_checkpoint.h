// Checkpoints of full size whose tensors are holes in their files: every byte is zero and none
// takes room on the disk.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/header.h"
#include "checkpoint/synth_model.h"
#include "tests/support/temp_folder.h"

namespace dsv4::testing {

// Writes the checkpoint in shards of 4 GiB.
inline void WriteHollowCheckpoint(const SynthModel& model, const TempFolder& folder) {
  constexpr uint64_t kShardBytes = uint64_t{4} << 30;
  struct Shard {
    std::vector<TensorInfo> tensors;
    uint64_t bytes = 0;
  };
  std::vector<Shard> shards(1);
  for (const SynthTensor& tensor : model.tensors()) {
    if (shards.back().bytes + tensor.num_bytes() > kShardBytes) shards.emplace_back();
    shards.back().tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}, 0});
    shards.back().bytes += tensor.num_bytes();
  }
  std::string index;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    const std::string header = SafetensorsHeader(shards[i].tensors);
    std::filesystem::resize_file(folder.Write(name, header), header.size() + shards[i].bytes);
    for (const TensorInfo& tensor : shards[i].tensors) {
      index += fmt::format("{}\"{}\":\"{}\"", index.empty() ? "" : ",", tensor.name, name);
    }
  }
  folder.Write("model.safetensors.index.json",
               fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{{}}}}})",
                           model.data_bytes(), index));
  folder.Write("config.json", model.config_json());
}

}  // namespace dsv4::testing
