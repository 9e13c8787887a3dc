// A model folder for tests: the golden checkpoint flash-tiny with the tokenizer of
// chat_tokenizer.h.
#pragma once

#include <filesystem>

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

  const TempFolder& folder() const { return folder_; }
  std::string path() const { return folder_.path().string(); }

 private:
  TempFolder folder_;
};

}  // namespace dsv4::testing
