// Finds added tokens in text: leftmost, then longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/text_span.h"

namespace dsv4 {

class AddedTokens {
 public:
  // No token may be longer, so that looking at every place of a text stays linear.
  static constexpr size_t kMaxBytes = 1024;

  struct Match {
    TextSpan span;
    int32_t id;
  };

  AddedTokens() = default;
  // Contents must be distinct, not empty and within kMaxBytes.
  explicit AddedTokens(std::vector<std::pair<std::string, int32_t>> tokens);

  // The first match at or after `from`; an empty span at the text's end where there is none.
  Match Find(std::string_view text, size_t from) const;

  // The id of the token whose content is all of `text`, or -1.
  int32_t IdOf(std::string_view text) const;

 private:
  // The longest token that begins at `from`; an empty span where none does.
  Match LongestAt(std::string_view text, size_t from) const;

  std::vector<std::pair<std::string, int32_t>> tokens_;  // sorted by content
  std::array<bool, 256> begins_{};                       // bytes that some token begins with
};

}  // namespace dsv4
