// The published tokenizer.json, which the set-up of the tests fetches (it is too large to be
// committed).
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/json.h"
#include "tests/support/json_lines.h"
#include "text/tokenizer.h"

namespace dsv4::testing {

inline constexpr char kPublishedTokenizer[] = DSV4_SOURCE_DIR "/models/tokenizer/tokenizer.json";

// A test that uses tokenizer(); it fails where the file is missing.
class PublishedTokenizerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { loaded_.emplace(Tokenizer::Load(kPublishedTokenizer)); }
  static void TearDownTestSuite() { loaded_.reset(); }
  void SetUp() override {
    ASSERT_TRUE(loaded_->has_value())
        << loaded_->error().message
        << "\nscripts/fetch_tokenizer.sh models/tokenizer/tokenizer.json fetches it";
  }

  static const Tokenizer& tokenizer() { return **loaded_; }

 private:
  inline static std::optional<Result<Tokenizer>> loaded_;
};

// One line of tests/golden/tokenizer/cases.jsonl; its README says what the fields mean.
struct TokenizerCase {
  std::string id;
  bool decode_only = false;
  std::string text;  // the input's bytes, valid UTF-8 or not
  std::vector<int32_t> ids;
  std::vector<int32_t> ids_plain;  // as `ids` where the file has none
  std::string decoded, decoded_skip;
  std::vector<size_t> split;  // empty where the file has none
};

inline std::string BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

inline std::vector<TokenizerCase> ReadTokenizerCases() {
  std::vector<TokenizerCase> cases;
  for (const json::Value& value : ReadJsonLines("tokenizer/cases.jsonl")) {
    const auto text = [&](const char* key) { return value.Find(key)->as_string(); };
    const auto numbers = [&]<class T>(const char* key, std::vector<T>& out) {
      if (value.Find(key) == nullptr) return;
      out.clear();
      for (const json::Value& item : value.Find(key)->items()) {
        const int64_t number = *item.to_int64();
        out.push_back(number > INT32_MAX ? T(-1) : static_cast<T>(number));
      }
    };
    TokenizerCase c;
    c.id = text("id");
    c.decode_only = value.Find("decode_only") != nullptr;
    if (!c.decode_only) {
      c.text = value.Find("text") != nullptr ? text("text") : BytesOfHex(text("bytes_hex"));
    }
    numbers("ids", c.ids);
    c.ids_plain = c.ids;
    numbers("ids_plain", c.ids_plain);
    numbers("split", c.split);
    c.decoded = text("decoded");
    c.decoded_skip = text("decoded_skip");
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace dsv4::testing
