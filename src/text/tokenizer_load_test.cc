#include <gmock/gmock.h>

#include "base/json.h"
#include "base/utf8.h"
#include "tests/support/published_tokenizer.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/temp_folder.h"
#include "text/tokenizer.h"

namespace dsv4 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallTokenizer;

// The small tokenizer's ids: bytes in order of their value 0…255, then 256 "ab", 257 "abc", 258 "
// a", 259 "<s>" (special), 260 "<t>".
TEST(TokenizerLoad, TheSmallTokenizerEncodesByItsMerges) {
  const Result<Tokenizer> loaded = Tokenizer::Parse(SmallTokenizer().Text());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->vocab_size(), 261);
  EXPECT_THAT(loaded->Encode("abc<s>ab<t>", AddedTokenText::kTokens),
              ElementsAre(257, 259, 256, 260));
  EXPECT_THAT(loaded->Encode("<s>", AddedTokenText::kPlain), ElementsAre('<', 's', '>'));
  const int32_t ids[] = {257, 259, 260};
  EXPECT_EQ(loaded->Decode(ids, true), "abc<t>");
}

TEST(TokenizerLoad, OptionalFieldsMayBeAbsentOrNullAndMergesMayBeArrays) {
  SmallTokenizer file;
  file.Replace(R"("normalizer":{"type":"Sequence","normalizers":[]},)", "");
  file.Replace(R"("post_processor":{"type":"ByteLevel"},)", R"("post_processor":null,)");
  file.Replace(R"("a b","ab c","Ġ a")", R"(["a","b"],["ab","c"],["Ġ","a"])");
  file.Replace(R"("byte_fallback":false,)", R"("byte_fallback":null,"ignore_merges":false,)");
  file.Replace(R"("dropout":null,)", R"("continuing_subword_prefix":"",)");
  const Result<Tokenizer> loaded = Tokenizer::Parse(file.Text());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(loaded->Encode("abc a", AddedTokenText::kTokens), ElementsAre(257, 258));
}

TEST(TokenizerLoad, RanksComeFromTheOrderOfMergesNotFromIds) {
  SmallTokenizer file;
  file.Replace(R"("a b","ab c","Ġ a")", R"("b c","a bc","a b","Ġ a")");
  file.Replace(R"("ab":256,"abc":257)", R"("ab":256,"abc":257,"bc":258)");
  file.Replace(R"("Ġa":258)", R"("Ġa":259)");
  file.Replace(R"("id":259,)", R"("id":260,)");
  file.Replace(R"({"id":260,"content":"<t>")", R"({"id":261,"content":"<t>")");
  const Result<Tokenizer> loaded = Tokenizer::Parse(file.Text());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(loaded->Encode("abc ab", AddedTokenText::kTokens), ElementsAre(257, ' ', 256));
}

TEST(TokenizerLoad, TokensThatAreNotNormalizedAreFoundFirst) {
  SmallTokenizer file;
  // "<t>" is normalized and begins further left, but "><" is cut out before it is looked for.
  file.Replace(R"("content":"<s>")", R"("content":"t>")");
  const Result<Tokenizer> loaded = Tokenizer::Parse(file.Text());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(loaded->Encode("<t>", AddedTokenText::kTokens), ElementsAre('<', 259));
}

struct BadFile {
  const char* name;
  const char* from;
  const char* to;
  const char* message;  // part of it
};

void PrintTo(const BadFile& file, std::ostream* out) { *out << file.name; }

class TokenizerLoadError : public ::testing::TestWithParam<BadFile> {};

TEST_P(TokenizerLoadError, NamesTheFieldAndWhatWasFound) {
  SmallTokenizer file;
  file.Replace(GetParam().from, GetParam().to);
  const Result<Tokenizer> loaded = Tokenizer::Parse(file.Text());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(loaded.error().message, HasSubstr(GetParam().message));
}

constexpr char kNormalizer[] = R"("normalizer":{"type":"Sequence","normalizers":[]})";
constexpr char kPost[] = R"("post_processor":{"type":"ByteLevel"})";

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerLoadError,
    ::testing::Values(
        BadFile{"NotJson", "{\"version\"", "{version", "expected"},
        BadFile{"Model", R"("type":"BPE")", R"("type":"WordPiece")",
                R"(model.type: expected "BPE", found "WordPiece")"},
        BadFile{"NoModelType", R"("type":"BPE",)", "",
                "model.type: expected \"BPE\", found nothing"},
        BadFile{"ByteFallback", R"("byte_fallback":false)", R"("byte_fallback":true)",
                "model.byte_fallback: expected false, found true"},
        BadFile{"IgnoreMerges", R"("byte_fallback":false)", R"("ignore_merges":true)",
                "model.ignore_merges: expected false, found true"},
        BadFile{"Dropout", R"("dropout":null)", R"("dropout":0.1)",
                "model.dropout: expected null, found 0.1"},
        BadFile{"Prefix", R"("dropout":null)", R"("continuing_subword_prefix":"##")",
                "model.continuing_subword_prefix: expected null, found \"##\""},
        BadFile{"Suffix", R"("dropout":null)", R"("end_of_word_suffix":"</w>")",
                "model.end_of_word_suffix"},
        BadFile{"Normalizer", kNormalizer, R"("normalizer":{"type":"NFC"})",
                R"(normalizer.type: expected "Sequence", found "NFC")"},
        BadFile{"NormalizerInSequence", kNormalizer,
                R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"}]})",
                R"(normalizer.normalizers: expected an empty array, found "NFC")"},
        BadFile{"PostProcessor", kPost, R"("post_processor":{"type":"TemplateProcessing"})",
                R"(post_processor.type: expected "ByteLevel", found "TemplateProcessing")"},
        BadFile{"Decoder", R"("decoder":{"type":"ByteLevel"})", R"("decoder":null)",
                R"(decoder.type: expected "ByteLevel", found nothing)"},
        BadFile{"Truncation", R"("truncation":null)", R"("truncation":{"max_length":5})",
                "truncation: expected null, found an object"},
        BadFile{"Padding", R"("padding":null)", R"("padding":{})", "padding: expected null"},
        BadFile{
            "Pattern", R"(\\p{N}{1,3})", R"(\\p{N})",
            R"(pre_tokenizer.pretokenizers[0].pattern.Regex: expected "\\p{N}{1,3}", found "\\p{N}")"},
        BadFile{"Behavior", R"("behavior":"Isolated")", R"("behavior":"Removed")",
                R"([0].behavior: expected "Isolated", found "Removed")"},
        BadFile{"Invert", R"("invert":false)", R"("invert":true)", "[0].invert: expected false"},
        BadFile{"PrefixSpace", R"("add_prefix_space":false)", R"("add_prefix_space":true)",
                "[3].add_prefix_space: expected false, found true"},
        BadFile{"UseRegexByDefault", R"(,"use_regex":false)", "",
                "[3].use_regex: expected false, found true (its default)"},
        BadFile{"VocabularyGap", R"("Ġa":258)", R"("Ġa":300)",
                R"(model.vocab["Ġa"]: expected an id from 0 to 258, found 300)"},
        BadFile{"VocabularyIdTwice", R"("Ġa":258)", R"("Ġa":257)",
                R"(model.vocab["Ġa"]: id 257 is that of "abc" too)"},
        BadFile{"VocabularyIdNoInteger", R"("Ġa":258)", R"("Ġa":258.0)", "found 258.0"},
        BadFile{"VocabularyIdNegative", R"("Ġa":258)", R"("Ġa":-1)", "found -1"},
        BadFile{"EmptyToken", R"("Ġa":258)", R"("":258)", "found an empty text"},
        BadFile{"NoByteCharacter", R"("Ġa":258)", R"("中":258)",
                R"(model.vocab["中"]: expected characters that stand for bytes)"},
        BadFile{"ByteMissing", R"("z":122)", R"("zz":122)",
                "expected a token for every byte, found none for 0x7A"},
        BadFile{"MergeOfUnknownToken", R"("ab c")", R"("abx c")",
                R"(model.merges[1]: expected tokens of model.vocab, found "abx")"},
        BadFile{"MergeMakesUnknownToken", R"("ab c")", R"("ab d")",
                R"(model.merges[1]: expected tokens of model.vocab, found "abd")"},
        BadFile{"MergeWithoutBlank", R"("ab c")", R"("abc")",
                R"(model.merges[1]: expected "a b" or ["a", "b"], found)"},
        BadFile{"MergeWithTwoBlanks", R"("ab c")", R"("a b c")",
                R"(model.merges[1]: expected "a b" or ["a", "b"], found)"},
        BadFile{"MergeArrayOfThree", R"("ab c")", R"(["a","b","c"])", "model.merges[1]: expected"},
        BadFile{"MergeTwice", R"("ab c")", R"("a b")", R"(model.merges[1]: "a b" stands twice)"},
        BadFile{"MergesNoArray", R"("merges":["a b","ab c","Ġ a"])", R"("merges":{})",
                "model.merges: expected an array, found an object"},
        BadFile{"AddedIdMissing", R"({"id":259,"content":"<s>")", R"({"id":256,"content":"ab")",
                "added_tokens: no token has id 259"},
        BadFile{"AddedIdGap", R"({"id":260,)", R"({"id":261,)",
                R"(added_tokens[1].id: expected an id from 259 to 260 for "<t>", found 261)"},
        BadFile{"AddedIdTwice", R"({"id":260,)", R"({"id":259,)",
                "added_tokens[1].id: id 259 stands twice"},
        BadFile{"AddedIdInsideVocabulary", R"({"id":260,)", R"({"id":97,)",
                R"(added_tokens[1].id: expected an id from 259 to 260 for "<t>", found 97)"},
        BadFile{"AddedIdNotTheVocabularys", R"("content":"<t>")", R"("content":"abc")",
                R"(added_tokens[1].id: expected 257 for "abc", found 260)"},
        BadFile{"AddedIdNegative", R"({"id":260,)", R"({"id":-1,)",
                "added_tokens[1].id: expected an id"},
        BadFile{"AddedContentTwice", R"("content":"<t>")", R"("content":"<s>")",
                R"(added_tokens: "<s>" has two ids, 259 and 260)"},
        BadFile{"AddedContentEmpty", R"("content":"<t>")", R"("content":"")",
                "added_tokens[1].content: expected 1 to 1024 bytes, found 0"},
        BadFile{"AddedContentSurrogate", R"("content":"<t>")", R"("content":"\ud800")",
                "added_tokens[1].content: expected text, found a lone surrogate"},
        BadFile{"AddedLstrip", R"("lstrip":false)", R"("lstrip":true)",
                "added_tokens[0].lstrip: expected false, found true"},
        BadFile{"AddedSingleWord", R"("single_word":false)", R"("single_word":true)",
                "added_tokens[0].single_word: expected false, found true"},
        BadFile{"AddedSpecialNoBool", R"("special":true)", R"("special":1)",
                "added_tokens[0].special: expected a boolean, found 1"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(TokenizerLoad, AnAddedTokenThatPlainTextWouldBecomeIsRefused) {
  SmallTokenizer merged, byte;
  merged.Replace(R"({"id":259,"content":"<s>")", R"({"id":256,"content":"ab")");
  merged.Replace(R"({"id":260,)", R"({"id":259,)");
  const Result<Tokenizer> of_merge = Tokenizer::Parse(merged.Text());
  ASSERT_FALSE(of_merge.has_value());
  EXPECT_THAT(of_merge.error().message,
              HasSubstr(R"(model.merges[0]: expected no added token in a merge, found "ab")"));
  byte.Replace(R"({"id":259,"content":"<s>")", R"({"id":60,"content":"<")");
  byte.Replace(R"({"id":260,)", R"({"id":259,)");
  const Result<Tokenizer> of_byte = Tokenizer::Parse(byte.Text());
  ASSERT_FALSE(of_byte.has_value());
  EXPECT_THAT(of_byte.error().message, HasSubstr("found none for 0x3C"));
}

TEST(TokenizerLoad, EveryTruncationOfTheFileIsAnError) {
  const std::string text = SmallTokenizer().Text();
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_FALSE(Tokenizer::Parse(std::string_view(text).substr(0, size)).has_value()) << size;
  }
}

TEST(TokenizerLoad, ErrorsOfAFileNameItsPath) {
  testing::TempFolder folder;
  const auto missing = Tokenizer::Load((folder / "none.json").string());
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message, HasSubstr("none.json: cannot be opened: No such file"));
  const auto directory = Tokenizer::Load(folder.path().string());
  ASSERT_FALSE(directory.has_value());
  EXPECT_THAT(directory.error().message, HasSubstr("cannot be opened: Is a directory"));
  const auto bad = Tokenizer::Load(folder.Write("bad.json", "[]").string());
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().message, HasSubstr("bad.json: expected an object, found an array"));
}

}  // namespace
}  // namespace dsv4
