#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "base/utf8.h"
#include "tests/support/published_tokenizer.h"
#include "text/unicode_classes.h"

namespace dsv4 {
namespace {

std::vector<std::string> Pieces(std::string_view text) {
  std::vector<std::string> pieces;
  Pretokenizer pretokenizer(text);
  for (auto piece = pretokenizer.Next(); !piece.empty(); piece = pretokenizer.Next()) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

TEST(Pretokenizer, GoldenSplits) {
  int num_checked = 0;
  for (const auto& c : testing::ReadTokenizerCases()) {
    if (c.split.empty()) continue;
    const std::string text = utf8::Sanitize(c.text);  // the pieces point into it
    std::vector<size_t> lengths;
    for (const std::string& piece : Pieces(text)) lengths.push_back(piece.size());
    EXPECT_EQ(lengths, c.split) << c.id;
    ++num_checked;
  }
  EXPECT_EQ(num_checked, 1174);
}

// The specification's examples, one for each rule and for each trap.
TEST(Pretokenizer, RulesInOrder) {
  using V = std::vector<std::string>;
  EXPECT_EQ(Pieces(""), V{});
  EXPECT_EQ(Pieces("a  1"), (V{"a", "  ", "1"}));  // the look-ahead sees its run's end
  EXPECT_EQ(Pieces("x   中"), (V{"x", "   ", "中"}));
  EXPECT_EQ(Pieces(" 中文 1"), (V{" ", "中文", " ", "1"}));
  EXPECT_EQ(Pieces("カ・タ"), (V{"カ", "・", "タ"}));  // the third pattern inside a CJK run
  EXPECT_EQ(Pieces("a龦b"), (V{"a龦b"}));              // Han beyond U+9FA5 is a letter like others
  EXPECT_EQ(Pieces("12٣²4"), (V{"12٣", "²4"}));
  EXPECT_EQ(Pieces(".com"), (V{".com"}));
  EXPECT_EQ(Pieces("..com .com"), (V{"..", "com", " .", "com"}));
  EXPECT_EQ(Pieces(".comé"), (V{".com", "é"}));
  EXPECT_EQ(Pieces(" ~\n x"), (V{" ~\n", " x"}));
  EXPECT_EQ(Pieces(").\r\n\n)"), (V{").\r\n\n", ")"}));
  EXPECT_EQ(Pieces("\u200ba"), (V{"\u200ba"}));  // any unclassed character may lead a word
  EXPECT_EQ(Pieces("\tword"), (V{"\tword"}));
  EXPECT_EQ(Pieces("a   b"), (V{"a", "  ", " b"}));
  EXPECT_EQ(Pieces("a   "), (V{"a", "   "}));
  EXPECT_EQ(Pieces(" \n \n  b"), (V{" \n \n", " ", " b"}));
  EXPECT_EQ(Pieces("\u200b\u200b\u200b)"), (V{"\u200b\u200b\u200b", ")"}));  // one unmatched piece
  EXPECT_EQ(Pieces("\u200b\u200b1"), (V{"\u200b\u200b", "1"}));
  EXPECT_EQ(Pieces("a\u180e \u180eb"), (V{"a", "\u180e", " ", "\u180eb"}));  // U+180E is no space
  EXPECT_EQ(Pieces("x\u0897y x\u088fy"), (V{"x\u0897y", " x", "\u088fy"}));  // 16.0 yes, 17.0 no
}

TEST(Pretokenizer, PiecesJoinToTheText) {
  std::mt19937 random(5);
  const char32_t alphabet[] = {' ',    '\t',   '\n',   '\r',    'a',    'Z',    '1',    '.',
                               '~',    0xE9,   0x300,  0x200B,  0x3000, 0x4E2D, 0x30FB, 0x3040,
                               0x9FA6, 0x0663, 0x0000, 0x1F600, 0xE000, 0x2028, 0x10D40};
  for (int round = 0; round < 30000; ++round) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) {
      utf8::Append(text, alphabet[random() % std::size(alphabet)]);
    }
    std::string joined;
    for (const std::string& piece : Pieces(text)) {
      ASSERT_TRUE(utf8::IsValid(piece));
      joined += piece;
    }
    ASSERT_EQ(joined, text);
  }
}

TEST(UnicodeClasses, TheGeneratedTableIsTheOneOfTheList) {
  std::vector<uint8_t> expected(0x110000, kCharOther);
  std::ifstream file(DSV4_TEST_DATA "/tokenizer/unicode-classes.tsv");
  int num_ranges = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    char32_t first = 0, last = 0;
    char name = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%x\t%x\t%c", reinterpret_cast<unsigned*>(&first),
                          reinterpret_cast<unsigned*>(&last), &name),
              3);
    const uint8_t value = name == 'L' || name == 'M'   ? kCharWord
                          : name == 'P' || name == 'S' ? kCharSign
                          : name == 'N'                ? kCharNumber
                                                       : kCharSpace;
    for (char32_t c = first; c <= last; ++c) expected[c] = value;
    ++num_ranges;
  }
  EXPECT_GT(num_ranges, 1500);
  expected['\r'] = expected['\n'] = kCharNewline;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const bool east_asian = (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
    ASSERT_EQ(CharClassOf(c), expected[c] | (east_asian ? kEastAsian : 0))
        << std::hex << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace dsv4
