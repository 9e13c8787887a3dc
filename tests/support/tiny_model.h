// A model folder for tests: the golden checkpoint flash-tiny with the tokenizer of
// chat_tokenizer.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tests/support/chat_tokenizer.h"
#include "tests/support/temp_folder.h"

namespace dsv4::testing {

inline constexpr int kTinyVocabSize = 512;
inline constexpr int kTinyContext = 1024;

class TinyModel {
 public:
  TinyModel() {
    const std::filesystem::path source = DSV4_TEST_DATA "/model/flash-tiny/checkpoint";
    for (const auto& entry : std::filesystem::directory_iterator(source)) {
      std::filesystem::create_symlink(entry.path(), folder_ / entry.path().filename().string());
    }
    folder_.Write("tokenizer.json", ChatTokenizerJson(kTinyVocabSize));
  }

  // The shards become files of this folder, for tests that change them.
  void OwnShards() const {
    for (const char* const name : {"model-00001-of-00002.safetensors", kLastShard}) {
      const std::string bytes = ReadFileText(folder_ / name);
      std::filesystem::remove(folder_ / name);  // a link into the golden data
      folder_.Write(name, bytes);
    }
  }

  // The last `share` of the bytes of `tensor`, which must be of the last shard, become 0xFF: NaN
  // in bf16, F32 and FP8.
  void FillWithNan(std::string_view tensor, double share = 1) const {
    std::string bytes = ReadFileText(folder_ / kLastShard);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const auto tensors = json::Parse(std::string_view(bytes).substr(sizeof header, header));
    const auto& range = tensors.value().Find(tensor)->Find("data_offsets")->items();
    const int64_t begin = range[0].to_int64().value(), end = range[1].to_int64().value();
    const auto count = static_cast<int64_t>(static_cast<double>(end - begin) * share);
    const auto data = bytes.begin() + static_cast<int64_t>(sizeof header + header);
    std::fill(data + end - count, data + end, '\xFF');
    std::filesystem::remove(folder_ / kLastShard);  // a link into the golden data
    folder_.Write(kLastShard, bytes);
  }

  const TempFolder& folder() const { return folder_; }
  std::string path() const { return folder_.path().string(); }

 private:
  static constexpr const char* kLastShard = "model-00002-of-00002.safetensors";

  TempFolder folder_;
};

}  // namespace dsv4::testing
