// dsv4 tokenize and detokenize as a user or a program runs them.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/support/json_lines.h"
#include "tests/support/published_tokenizer.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/terminal.h"

namespace dsv4 {
namespace {

using ::testing::HasSubstr;
using testing::kPublishedTokenizer;
using testing::ParseJsonLines;
using testing::ProgramResult;
using testing::RunDsv4;
using ::testing::StartsWith;

std::string HexOf(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return hex;
}

// The golden file itself is the input: a line may hold more than the command reads.
TEST(TokenizeCommand, GoldenCasesInBatch) {
  const std::string golden = testing::ReadFileText(DSV4_TEST_DATA "/tokenizer/cases.jsonl");
  const ProgramResult result =
      RunDsv4({"tokenize", "--tokenizer", kPublishedTokenizer, "--batch"}, golden);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  const std::vector<json::Value> expected = ParseJsonLines(golden),
                                 found = ParseJsonLines(result.out);
  ASSERT_EQ(expected.size(), 1766u);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    json::Value wanted = json::Value::MakeObject();
    for (const char* key : {"id", "ids", "decoded", "decoded_skip"}) {
      wanted.Set(key, *expected[i].Find(key));
    }
    EXPECT_EQ(json::Dump(found[i]), json::Dump(wanted));
  }
}

TEST(TokenizeCommand, GoldenCasesInPlainBatch) {
  std::string input, expected;
  for (const auto& c : testing::ReadTokenizerCases()) {
    if (c.decode_only) continue;
    input += fmt::format("{{\"id\":\"{}\",\"bytes_hex\":\"{}\"}}\n", c.id, HexOf(c.text));
    expected += fmt::format("{{\"id\":\"{}\",\"ids\":[{}],", c.id, fmt::join(c.ids_plain, ","));
    // Plain ids hold no special token, and decode to the text.
    expected += fmt::format("\"decoded\":{0},\"decoded_skip\":{0}}}\n", json::Quote(c.decoded));
  }
  const ProgramResult result =
      RunDsv4({"tokenize", "--tokenizer", kPublishedTokenizer, "--plain", "--batch"}, input);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out == expected);
}

TEST(DetokenizeCommand, GoldenCasesInBatch) {
  const Result<Tokenizer> tokenizer = Tokenizer::Load(kPublishedTokenizer);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  std::string expected;
  for (const auto& c : testing::ReadTokenizerCases()) {
    expected +=
        fmt::format("{{\"id\":\"{}\",\"decoded\":{},\"decoded_skip\":{},\"decoded_hex\":\"{}\"}}\n",
                    c.id, json::Quote(c.decoded), json::Quote(c.decoded_skip),
                    HexOf(tokenizer->DecodeBytes(c.ids, false)));
  }
  const ProgramResult result =
      RunDsv4({"detokenize", "--tokenizer", kPublishedTokenizer, "--batch"},
              testing::ReadFileText(DSV4_TEST_DATA "/tokenizer/cases.jsonl"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out == expected);
}

// EF A0 is one incomplete character, EF alone another.
TEST(DetokenizeCommand, HexHoldsBytesThatAreNoUtf8) {
  const ProgramResult result =
      RunDsv4({"detokenize", "--tokenizer", kPublishedTokenizer, "--batch"},
              R"({"id":7,"ids":[174,257,174]})");
  EXPECT_EQ(result.out,
            "{\"id\":7,\"decoded\":\"\uFFFD\uFFFD\",\"decoded_skip\":\"\uFFFD\uFFFD\","
            "\"decoded_hex\":\"efa0ef\"}\n");
}

TEST(TokenizeCommand, TextToIdsAndBack) {
  const std::string text = "Hello <think>, 中文!\n";
  const ProgramResult ids = RunDsv4({"tokenize", "--tokenizer", kPublishedTokenizer}, text);
  EXPECT_EQ(ids.exit_code, 0) << ids.err;
  EXPECT_THAT(ids.out, HasSubstr(" 128821 "));
  EXPECT_TRUE(ids.out.ends_with('\n'));
  const ProgramResult back = RunDsv4({"detokenize", "--tokenizer", kPublishedTokenizer}, ids.out);
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_EQ(back.out, text);
  const ProgramResult plain =
      RunDsv4({"tokenize", "--tokenizer", kPublishedTokenizer, "--plain"}, "<think>");
  EXPECT_EQ(plain.out, "30 37947 32\n");
}

TEST(DetokenizeCommand, Options) {
  const auto run = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"detokenize", "--tokenizer", kPublishedTokenizer});
    return RunDsv4(more, "0 174 1 999999\n").out;
  };
  EXPECT_EQ(run({}), "<｜begin▁of▁sentence｜>\uFFFD<｜end▁of▁sentence｜>");
  EXPECT_EQ(run({"--skip-special"}), "\uFFFD");
  EXPECT_EQ(run({"--skip-special", "--bytes"}), "\xEF");
}

TEST(DetokenizeCommand, ATerminalNeedsOneCtrlDAndGetsALineEnd) {
  testing::Terminal terminal({DSV4_BINARY, "detokenize", "--tokenizer", kPublishedTokenizer}, {});
  terminal.Type("30 37947 32\n\x04");
  ASSERT_TRUE(terminal.WaitFor("<think>\r\n")) << terminal.screen();
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST(TokenizeCommand, AModelFolderHoldsTheTokenizer) {
  const testing::TempFolder folder;
  std::filesystem::create_symlink(kPublishedTokenizer, folder / "tokenizer.json");
  EXPECT_EQ(RunDsv4({"tokenize", "--model", folder.path().string()}, " ").out, "223\n");
}

TEST(TokenizeCommand, ABadLineIsAnsweredAndTheNextGoesOn) {
  const ProgramResult result = RunDsv4({"tokenize", "--tokenizer", kPublishedTokenizer, "--batch"},
                                       "{\"id\":1,\"text\":5}\n"
                                       "nonsense\n"
                                       "\n"
                                       "[]\n"
                                       "{\"id\":\"a\",\"bytes_hex\":\"e\"}\n"
                                       "{\"id\":\"b\",\"bytes_hex\":\"eg\"}\n"
                                       "{\"id\":\"c\",\"ids\":[1.5]}\n"
                                       "{\"id\":[2],\"text\":\" \"}");
  EXPECT_EQ(result.exit_code, 0);
  std::istringstream lines(result.out);
  const auto next = [&] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  EXPECT_EQ(next(), R"({"id":1,"error":"text: expected a string, found a number"})");
  EXPECT_THAT(next(), StartsWith(R"({"id":null,"error":"line: byte 0: expected )"));
  EXPECT_EQ(next(), R"({"id":null,"error":"line: expected an object, found an array"})");
  EXPECT_EQ(next(), R"({"id":"a","error":"bytes_hex: expected digits in pairs, found 1"})");
  EXPECT_EQ(next(), R"({"id":"b","error":"bytes_hex: expected hexadecimal digits, found 'eg'"})");
  EXPECT_EQ(next(), R"({"id":"c","error":"ids[0]: expected an integer, found 1.5"})");
  EXPECT_EQ(next(), R"({"id":[2],"ids":[223],"decoded":" ","decoded_skip":" "})");
  EXPECT_EQ(next(), "");
}

TEST(TokenizeCommand, ExitCodesSayWhatWasWrong) {
  const ProgramResult missing = RunDsv4({"tokenize", "--tokenizer", "/none/tokenizer.json"}, "");
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("/none/tokenizer.json: cannot be opened"));
  EXPECT_EQ(RunDsv4({"tokenize"}, "").exit_code, 2);
  EXPECT_EQ(RunDsv4({"tokenize", "--tokenizer", "a", "--model", "b"}, "").exit_code, 2);
  const ProgramResult word = RunDsv4({"detokenize", "--tokenizer", kPublishedTokenizer}, "1 2x 3");
  EXPECT_EQ(word.exit_code, 3);
  EXPECT_THAT(word.err, HasSubstr("byte 2: expected a token id, found '2x'"));
  const ProgramResult huge =
      RunDsv4({"detokenize", "--tokenizer", kPublishedTokenizer}, std::string(100000, 'x'));
  EXPECT_EQ(huge.exit_code, 3);
  EXPECT_LT(huge.err.size(), 200u) << "the word is quoted in part";
  for (const char* verb : {"tokenize", "detokenize"}) {
    const ProgramResult help = RunDsv4({verb, "--help"}, "");
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example: "));
  }
}

}  // namespace
}  // namespace dsv4
