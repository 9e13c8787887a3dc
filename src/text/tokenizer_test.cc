#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include <ctime>
#include <numeric>
#include <random>

#include "base/utf8.h"
#include "tests/support/published_tokenizer.h"
#include "tests/support/time_limit.h"
#include "text/detokenizer.h"

namespace dsv4 {
namespace {

using ::testing::ElementsAre;
using Published = testing::PublishedTokenizerTest;

std::vector<int32_t> EncodePlain(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.Encode(text, AddedTokenText::kPlain);
}

TEST_F(Published, GoldenCases) {
  int num_encode = 0, num_decode_only = 0, num_plain_differs = 0;
  for (const auto& c : testing::ReadTokenizerCases()) {
    if (!c.decode_only) {
      EXPECT_EQ(tokenizer().Encode(c.text, AddedTokenText::kTokens), c.ids) << c.id;
      EXPECT_EQ(EncodePlain(tokenizer(), c.text), c.ids_plain) << c.id;
      EXPECT_EQ(tokenizer().EncodeWithSpans(c.text, {}).value(), c.ids_plain) << c.id;
      num_plain_differs += c.ids == c.ids_plain ? 0 : 1;
    }
    EXPECT_EQ(tokenizer().Decode(c.ids, false), c.decoded) << c.id;
    EXPECT_EQ(tokenizer().Decode(c.ids, true), c.decoded_skip) << c.id;
    ++(c.decode_only ? num_decode_only : num_encode);
  }
  EXPECT_EQ(num_encode, 1506);
  EXPECT_EQ(num_decode_only, 260);
  EXPECT_GT(num_plain_differs, 200);
}

TEST_F(Published, Vocabulary) {
  EXPECT_EQ(tokenizer().vocab_size(), 129280);
  int num_added = 0, num_special = 0, num_partial = 0;
  size_t longest = 0;
  for (int32_t id = 0; id < 129280; ++id) {
    num_added += tokenizer().IsAdded(id);
    num_special += tokenizer().IsSpecial(id);
    if (id < 128000) {
      num_partial += !utf8::IsValid(tokenizer().TokenBytes(id));
      longest = std::max(longest, tokenizer().TokenBytes(id).size());
    }
  }
  EXPECT_EQ(num_added, 1283);
  EXPECT_EQ(num_special, 1230);
  EXPECT_EQ(num_partial, 1470);
  EXPECT_EQ(longest, 128u);
  EXPECT_EQ(tokenizer().TokenBytes(223), " ");
  EXPECT_EQ(tokenizer().FindAdded("<think>"), 128821);
  EXPECT_EQ(tokenizer().FindAdded("<think"), std::nullopt);
  EXPECT_EQ(tokenizer().FindAdded("<think> "), std::nullopt);
  EXPECT_EQ(tokenizer().FindAdded(" "), std::nullopt);
  for (const int32_t outside : {-1, 129280, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(tokenizer().TokenBytes(outside), "");
    EXPECT_FALSE(tokenizer().IsAdded(outside));
    EXPECT_FALSE(tokenizer().IsSpecial(outside));
  }
}

TEST_F(Published, EveryPlainTokensTextEncodesToThatToken) {
  int num_checked = 0;
  for (int32_t id = 3; id < 128000; ++id) {
    const std::string_view bytes = tokenizer().TokenBytes(id);
    if (!utf8::IsValid(bytes)) continue;
    ASSERT_THAT(EncodePlain(tokenizer(), bytes), ElementsAre(id)) << bytes;
    ++num_checked;
  }
  EXPECT_EQ(num_checked, 128000 - 3 - 1470);
}

TEST_F(Published, TextIsCutOnlyAtTheSpans) {
  const std::string text = "<｜User｜>a <think> <｜User｜>  b<think>";
  const size_t user = std::string_view("<｜User｜>").size();
  const TextSpan spans[] = {{0, user}, {text.size() - 7, text.size()}};
  std::vector<int32_t> expected = {128803};
  const std::string_view middle = std::string_view(text).substr(user, text.size() - 7 - user);
  for (const int32_t id : EncodePlain(tokenizer(), middle)) expected.push_back(id);
  expected.push_back(128821);
  EXPECT_EQ(tokenizer().EncodeWithSpans(text, spans).value(), expected);
  // Neighbouring spans, and bytes that are cut off by a span.
  const TextSpan twice[] = {{2, 9}, {9, 16}};
  EXPECT_EQ(tokenizer().EncodeWithSpans("\xF0\x9F<think><think>\x98", twice).value(),
            tokenizer().Encode("\uFFFD<think><think>\uFFFD", AddedTokenText::kTokens));
}

TEST_F(Published, ASpanThatSpellsNoAddedTokenIsAnError) {
  const TextSpan spans[] = {{1, 6}};
  const auto result = tokenizer().EncodeWithSpans("a<User> b", spans);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, ::testing::HasSubstr("'<User'"));
}

TEST_F(Published, StreamedTextIsWholeCharactersAndJoinsToTheDecodedWhole) {
  std::vector<std::vector<int32_t>> streams;
  for (auto& c : testing::ReadTokenizerCases()) streams.push_back(std::move(c.ids));
  std::mt19937 random(17);
  for (int i = 0; i < 3000; ++i) {
    std::vector<int32_t>& ids = streams.emplace_back(random() % 20);
    // Half of them bytes, among which parts of characters meet.
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % (i % 2 == 0 ? 129290 : 260));
  }
  for (const auto& ids : streams) {
    for (const bool skip : {false, true}) {
      Detokenizer detokenizer(tokenizer(), skip);
      std::string joined, bytes;
      for (const int32_t id : ids) {
        const std::string part = detokenizer.Push(id);
        ASSERT_TRUE(utf8::IsValid(part));
        joined += part;
        bytes += skip && tokenizer().IsSpecial(id) ? "" : tokenizer().TokenBytes(id);
        const std::string seen = utf8::Sanitize(bytes);
        ASSERT_TRUE(joined == seen || joined + "\uFFFD" == seen);
      }
      joined += detokenizer.Flush();
      ASSERT_EQ(joined, tokenizer().Decode(ids, skip));
    }
  }
}

TEST_F(Published, RandomBytesRoundTrip) {
  std::mt19937 random(19);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (auto n = random() % 60; n > 0; --n) {
      // Bytes of all kinds, blanks and letters often.
      bytes +=
          round % 3 == 0 ? static_cast<char>(random()) : " \n\rab1.<|\xE3\x83\x80"[random() % 12];
    }
    for (const auto added : {AddedTokenText::kTokens, AddedTokenText::kPlain}) {
      ASSERT_EQ(tokenizer().Decode(tokenizer().Encode(bytes, added), false), utf8::Sanitize(bytes));
    }
  }
}

double SecondsOf(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t begin = std::clock();  // processor time: other programs do not count
  const auto ids = tokenizer.Encode(text, AddedTokenText::kTokens);
  const std::clock_t taken = std::clock() - begin;
  EXPECT_EQ(tokenizer.Decode(ids, false), text);
  return static_cast<double>(taken) / CLOCKS_PER_SEC;
}

TEST_F(Published, NoInputIsQuadratic) {
  for (const std::string unit :
       {"a", " ", "1", "。", "中", "ア", "<｜", "<｜place▁holder▁no▁", "｜DSML", "\n", " \n", ".",
        ".a", "\u200b", "é", "\u0300", "ab ", "<think", "🙂"}) {
    const auto text_of = [&](size_t bytes) {
      std::string text;
      while (text.size() < bytes) text += unit;
      return text;
    };
    const double small = SecondsOf(tokenizer(), text_of(1 << 17));
    const double large = SecondsOf(tokenizer(), text_of(1 << 20));
    EXPECT_LT(large, test::Within(5).count())
        << unit;  // an optimised build needs well under a second
    // 8 times the text; a quadratic way would take 64 times as long. The constant is for noise.
    EXPECT_LT(large, 24 * small + test::Within(0.2).count()) << unit;
  }
}

}  // namespace
}  // namespace dsv4
