// A tokenizer.json for tests of chats: BOS and EOS are 0 and 1, bytes 2 … 257 in order of their
// value, then a few merges, tokens that no text gives, and the other control tokens of the dialect,
// so that there are `vocab_size`.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/byte_level.h"
#include "text/pretokenizer.h"
#include "text/wire_dialect.h"

namespace dsv4::testing {

inline constexpr int kChatTokenizerMinimum = 2 + 256 + 5 + 12;  // with DeepSeek-V4's tokens

inline std::string ChatTokenizerJson(int vocab_size = kChatTokenizerMinimum,
                                     const chat::WireDialect& dialect = chat::DeepSeekV4()) {
  const auto num_controls = static_cast<int>(dialect.control_tokens.size()) - 2;
  std::string added, vocab, splits;
  int next = 0;
  const auto put_name = [&](std::string_view name) {
    vocab += fmt::format("{}{}:{}", vocab.empty() ? "" : ",", json::Quote(name), next++);
  };
  const auto add = [&](std::string_view content, int id, bool special) {
    added +=
        fmt::format(R"({}{{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                    R"("normalized":false,"special":{}}})",
                    added.empty() ? "" : ",", id, json::Quote(content), special);
  };
  for (const std::string_view token : {dialect.bos, dialect.eos}) {
    add(token, next, true);
    put_name(token);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char text[] = {static_cast<char>(byte)};
    put_name(ByteLevelName({text, 1}));
  }
  for (const std::string_view merged : {"he", "ll", "llo", "Ġw", "or"}) put_name(merged);
  for (int i = 0; next < vocab_size - num_controls; ++i) put_name(fmt::format("filler{}", i));
  for (const std::string_view token : std::span(dialect.control_tokens).subspan(2)) {
    // As published: these are no special tokens.
    const bool plain =
        token == dialect.think_start || token == dialect.think_end || token == dialect.dsml;
    add(token, next++, !plain);
  }
  for (const std::string_view pattern : kSplitPatterns) {
    splits += fmt::format(
        R"({{"type":"Split","pattern":{{"Regex":{}}},"behavior":"Isolated","invert":false}},)",
        json::Quote(pattern));
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":{"type":"Sequence","normalizers":[]},)" +
         R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[)" + splits +
         R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},)" +
         R"("post_processor":{"type":"ByteLevel"},"decoder":{"type":"ByteLevel"},)" +
         R"("model":{"type":"BPE","dropout":null,"byte_fallback":false,"vocab":{)" + vocab +
         R"(},"merges":["h e","l l","ll o","Ġ w","o r"]}})";
}

}  // namespace dsv4::testing
