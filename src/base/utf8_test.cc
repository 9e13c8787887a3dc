#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace dsv4::utf8 {
namespace {

const std::string kFffd(kReplacementText);

std::string Repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(Utf8, EveryCodePointRoundTripsAndSurrogatesAreInvalid) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    Append(text, c);
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(IsValid(text), !surrogate) << std::hex << static_cast<uint32_t>(c);
    if (surrogate) {
      ASSERT_EQ(Sanitize(text), Repeat(kFffd, 3));
      continue;
    }
    const Decoded decoded = DecodeAt(text, 0);
    ASSERT_TRUE(decoded.valid);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(static_cast<size_t>(decoded.length), text.size());
    ASSERT_EQ(Sanitize(text), text);
  }
}

TEST(Utf8, EachMaximalSubpartBecomesOneReplacement) {
  struct Case {
    std::string bytes;
    int replacements;
  };
  const Case cases[] = {
      {"\xF0\x9F\x98", 1},     {"\xE0\x80\x80", 3}, {"\xED\xA0\x80", 3}, {"\xC0\x80", 2},
      {"\xF4\x90\x80\x80", 4}, {"\xFF", 1},         {"\xE4\xB8", 1},     {"\x80\x80", 2},
      {"\xF0\x9F\x98\xF0", 2}, {"\xC3", 1},         {"\xF5\x80", 2},     {"\xE0\xA0", 1},
  };
  for (const Case& c : cases) {
    const std::string expected = Repeat(kFffd, c.replacements);
    EXPECT_FALSE(IsValid(c.bytes));
    EXPECT_EQ(Sanitize(c.bytes), expected);
    EXPECT_EQ(Sanitize("eight or more " + c.bytes + "\xC3\xA9z"),
              "eight or more " + expected + "\xC3\xA9z");
  }
}

TEST(Utf8, TruncatedMeansThatMoreBytesCouldStillMakeACharacter) {
  EXPECT_TRUE(DecodeAt("\xF0\x9F\x98", 0).truncated);
  EXPECT_TRUE(DecodeAt("a\xE4", 1).truncated);
  EXPECT_FALSE(DecodeAt("\xE0\x80", 0).truncated);
  EXPECT_FALSE(DecodeAt("\xFF", 0).truncated);
  EXPECT_FALSE(DecodeAt("\xF0\x9F\x98z", 0).truncated);
}

TEST(Utf8, SanitizedBytesAreValidAndAFixedPoint) {
  std::mt19937 random(7);
  const std::string_view alphabet(
      "\x00\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF", 21);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (auto n = random() % 12; n > 0; --n) bytes += alphabet[random() % alphabet.size()];
    const std::string clean = Sanitize(bytes);
    ASSERT_TRUE(IsValid(clean));
    ASSERT_EQ(Sanitize(clean), clean);
    ASSERT_EQ(clean == bytes, IsValid(bytes));
  }
}

TEST(Utf8, AStreamInAnySplitGivesWholeCharactersThatJoinToTheSanitizedWhole) {
  std::mt19937 random(11);
  const std::string_view alphabet("\x41\x80\x90\xA0\xBF\xC3\xE0\xE4\xED\xF0\xF4\xFF", 12);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (auto n = random() % 16; n > 0; --n) bytes += alphabet[random() % alphabet.size()];
    if (round % 2 == 0) bytes += "\xF0\x9F\x98\x80";
    Stream stream;
    std::string joined;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random() % 4;
      const std::string part = stream.Push(std::string_view(bytes).substr(at, length));
      at += length;
      ASSERT_TRUE(IsValid(part));
      joined += part;
      // All but an incomplete prefix is out.
      const std::string seen = Sanitize(std::string_view(bytes).substr(0, at));
      ASSERT_TRUE(joined == seen || joined + kFffd == seen);
    }
    joined += stream.Flush();
    ASSERT_EQ(joined, Sanitize(bytes));
    ASSERT_EQ(stream.Flush(), "");
  }
}

TEST(Utf8, AStreamSaysAtOnceThatAByteCanNoLongerBecomeValid) {
  Stream stream;
  EXPECT_EQ(stream.Push("\xE0"), "");
  EXPECT_EQ(stream.Push("\x80"), kFffd + kFffd);  // E0 must be followed by A0 or more
  EXPECT_EQ(stream.Push("\xF0\x9F"), "");
  EXPECT_EQ(stream.Push("a"), kFffd + "a");
  EXPECT_EQ(stream.Push("\xFF"), kFffd);
}

}  // namespace
}  // namespace dsv4::utf8
