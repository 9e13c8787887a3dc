// A tokenizer.json of 261 tokens, to be altered by tests: 256 bytes in order of their value, "ab",
// "abc", " a" and the added "<s>" (special, not normalized) and "<t>" (neither special).
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "text/byte_level.h"
#include "text/pretokenizer.h"

namespace dsv4::testing {

class SmallTokenizer {
 public:
  SmallTokenizer() {
    std::string vocab, splits;
    for (int byte = 0; byte < 256; ++byte) {
      const char text[] = {static_cast<char>(byte)};
      vocab += fmt::format("{}:{},", json::Quote(ByteLevelName({text, 1})), byte);
    }
    for (const std::string_view pattern : kSplitPatterns) {
      splits += fmt::format(
          R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}},)",
          json::Quote(pattern));
    }
    text_ = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";
    text_ += R"({"id":259,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,)";
    text_ += R"("normalized":false,"special":true},)";
    text_ += R"({"id":260,"content":"<t>","normalized":true,"special":false}],)";
    text_ += R"("normalizer":{"type":"Sequence","normalizers":[]},)";
    text_ += R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[)" + splits;
    text_ += R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)";
    text_ += R"("post_processor":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},)";
    text_ += R"("model":{"type":"BPE","dropout":null,"byte_fallback":false,"vocab":{)" + vocab;
    text_ += R"("ab":256,"abc":257,"Ġa":258},"merges":["a b","ab c","Ġ a"]}})";
  }

  // Replaces the first place where `from` stands; it must stand somewhere.
  void Replace(std::string_view from, std::string_view to) {
    const size_t at = text_.find(from);
    DSV4_CHECK(at != std::string::npos, "{}", from);
    text_.replace(at, from.size(), to);
  }

  const std::string& Text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace dsv4::testing
