#include "text/added_tokens.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace dsv4 {
namespace {

TEST(AddedTokens, LeftmostThenLongestAsASearchOfEveryPlaceSays) {
  std::mt19937 random(29);
  const auto random_text = [&](size_t max_length) {
    std::string text;
    for (size_t n = random() % (max_length + 1); n > 0; --n) text += "ab\xFF"[random() % 3];
    return text;
  };
  for (int round = 0; round < 20000; ++round) {
    std::map<std::string, int32_t> contents;
    for (int32_t id = 0; id < static_cast<int32_t>(random() % 8); ++id) {
      if (const std::string content = random_text(4); !content.empty()) contents[content] = id;
    }
    const AddedTokens tokens({contents.begin(), contents.end()});
    const std::string text = random_text(16);
    const size_t from = random() % (text.size() + 1);
    AddedTokens::Match expected{{text.size(), text.size()}, -1};
    for (size_t begin = from; begin < text.size() && expected.id < 0; ++begin) {
      for (size_t length = 1; begin + length <= text.size(); ++length) {
        const auto found = contents.find(text.substr(begin, length));
        if (found != contents.end()) expected = {{begin, begin + length}, found->second};
      }
    }
    const AddedTokens::Match match = tokens.Find(text, from);
    ASSERT_EQ(match.span, expected.span);
    ASSERT_EQ(match.id, expected.id);
    const auto whole = contents.find(text);
    ASSERT_EQ(tokens.IdOf(text), whole == contents.end() ? -1 : whole->second);
  }
}

}  // namespace
}  // namespace dsv4
