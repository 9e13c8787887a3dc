#include "text/added_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace dsv4 {

AddedTokens::AddedTokens(std::vector<std::pair<std::string, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end());
  for (const auto& [content, id] : tokens_) {
    DSV4_CHECK(!content.empty() && content.size() <= kMaxBytes, "added token {}", id);
    begins_[static_cast<uint8_t>(content.front())] = true;
  }
}

AddedTokens::Match AddedTokens::LongestAt(std::string_view text, size_t from) const {
  Match best{{from, from}, -1};
  // [low, high): the tokens that begin with text[from…at).
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (size_t at = from; at < text.size(); ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    const auto byte_of = [depth = at - from](const auto& token) {
      return static_cast<uint8_t>(token.first[depth]);
    };
    low = std::partition_point(low, high, [&](const auto& token) { return byte_of(token) < byte; });
    high =
        std::partition_point(low, high, [&](const auto& token) { return byte_of(token) == byte; });
    if (low == high) break;
    if (low->first.size() == at + 1 - from) {  // the shortest of them sorts first
      best = {{from, at + 1}, low->second};
      if (++low == high) break;
    }
  }
  return best;
}

AddedTokens::Match AddedTokens::Find(std::string_view text, size_t from) const {
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<uint8_t>(text[at])]) continue;
    const Match match = LongestAt(text, at);
    if (match.id >= 0) return match;
  }
  return {{text.size(), text.size()}, -1};
}

int32_t AddedTokens::IdOf(std::string_view text) const {
  const Match match = LongestAt(text, 0);
  return match.span.end == text.size() ? match.id : -1;
}

}  // namespace dsv4
