#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <random>

namespace dsv4::json {
namespace {

using ::testing::HasSubstr;

std::vector<std::vector<std::string>> ReadTable(const std::string& name) {
  std::ifstream file(std::string(DSV4_TEST_DATA) + "/json/" + name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> cells(1);
    for (const char c : line) {
      if (c == '\t') {
        cells.emplace_back();
      } else {
        cells.back() += c;
      }
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    uint8_t byte = 0;
    std::from_chars(hex.data() + i, hex.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

std::string Message(std::string_view text, const ParseOptions& options = {}) {
  const Result<Value> value = Parse(text, options);
  return value ? "accepted" : value.error().message;
}

TEST(Json, ReadsAndWritesAsPythonDoes) {
  const auto rows = ReadTable("cases.tsv");
  ASSERT_GE(rows.size(), 500u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 3u);
    const std::string text = FromHex(row[0]);
    const Result<Value> value = Parse(text);
    if (row[1] == "-") {
      EXPECT_FALSE(value) << "accepted: " << text;
      continue;
    }
    ASSERT_TRUE(value) << text << "\n" << value.error().message;
    EXPECT_EQ(Dump(*value), FromHex(row[1])) << text;
    EXPECT_EQ(Dump(*value, true), FromHex(row[2])) << text;
  }
}

TEST(Json, FloatsHaveTheShortestDigitsInPythonsLayout) {
  const auto rows = ReadTable("floats.tsv");
  ASSERT_GE(rows.size(), 1500u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 2u);
    uint64_t bits = 0;
    std::from_chars(row[0].data(), row[0].data() + row[0].size(), bits, 16);
    const auto value = std::bit_cast<double>(bits);
    EXPECT_EQ(FloatText(value), row[1]);
    const std::optional<double> back = Value::NumberText(row[1]).to_double();
    ASSERT_TRUE(back);
    if (!std::isnan(value)) {
      EXPECT_EQ(std::bit_cast<uint64_t>(*back), bits) << row[1];
    }
  }
}

TEST(Json, ErrorsNameTheByteWhatWasExpectedAndWhatWasFound) {
  EXPECT_EQ(Message(""), "byte 0: expected a JSON value, found the end");
  EXPECT_EQ(Message("[1 2]"), "byte 3: expected ',' or ']', found '2'");
  EXPECT_EQ(Message("{\"a\" 1}"), "byte 5: expected ':', found '1'");
  EXPECT_EQ(Message("{a}"), "byte 1: expected a member's name in '\"', found 'a'");
  EXPECT_EQ(Message("1 é"), "byte 2: expected the end of the JSON text, found 'é'");
  EXPECT_EQ(Message("\"a\nb\""),
            "byte 2: expected a character of a string or '\"', found byte 0x0A");
  EXPECT_EQ(Message("\"\\ud8x0\""), "byte 5: expected four hexadecimal digits, found 'x'");
  EXPECT_EQ(Message("-NaN"), "byte 1: expected a digit, found 'N'");
  EXPECT_EQ(Message("\"\xff\""), "byte 1: expected UTF-8, found byte 0xFF");
  EXPECT_THAT(Message(std::string(4301, '9')), HasSubstr("at most 4300 digits, found 4301"));
}

TEST(Json, NestingIsLimited) {
  const std::string open(1000, '[');
  const std::string close(1000, ']');
  const Result<Value> deepest = Parse(open + close);
  ASSERT_TRUE(deepest);
  EXPECT_EQ(DumpCompact(*deepest), open + close);
  EXPECT_THAT(Message('[' + open + close + ']'), HasSubstr("at most 1000 levels"));
  EXPECT_THAT(Message(std::string(10'000'000, '[')), HasSubstr("at most 1000 levels"));
  EXPECT_EQ(Message("[[1]]", {.max_depth = 1}),
            "byte 1: expected at most 1 levels of nesting, found more");
}

TEST(Json, AccessorsGiveWhatTheTextHolds) {
  const Value value =
      Parse(R"({"i":-0,"big":9223372036854775808,"f":1.0,"s":"x","b":true,"n":null,"a":[1,2]})")
          .value();
  EXPECT_EQ(value.Find("i")->to_int64(), 0);
  EXPECT_EQ(value.Find("i")->to_double(), 0.0);
  EXPECT_EQ(value.Find("big")->to_int64(), std::nullopt);
  EXPECT_EQ(value.Find("big")->to_double(), 9223372036854775808.0);
  EXPECT_EQ(value.Find("f")->to_int64(), std::nullopt);
  EXPECT_EQ(value.Find("f")->number_text(), "1.0");
  EXPECT_EQ(value.Find("s")->as_string(), "x");
  EXPECT_TRUE(value.Find("b")->as_bool());
  EXPECT_TRUE(value.Find("n")->is_null());
  EXPECT_EQ(value.Find("a")->items().size(), 2u);
  EXPECT_EQ(value.Find("missing"), nullptr);
  EXPECT_EQ(value.Find("s")->Find("s"), nullptr);
  EXPECT_EQ(Value::NumberText("1e999").to_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Value::NumberText("1e-999").to_double(), 0.0);
  EXPECT_TRUE(std::isnan(*Value::NumberText("NaN").to_double()));
}

TEST(Json, BuiltValuesAreWritten) {
  Value value = Value::MakeObject({{"a", Value::Int(1)}, {"b", Value()}, {"a", Value::Double(2)}});
  value.Set("c", Value::MakeArray());
  value.Set("b", Value::String("\x7f/\"é"));
  EXPECT_EQ(Dump(value), "{\"a\": 2.0, \"b\": \"\x7f/\\\"é\", \"c\": []}");
  EXPECT_EQ(DumpCompact(value), "{\"a\":2.0,\"b\":\"\x7f/\\\"é\",\"c\":[]}");
  EXPECT_EQ(Quote("é\x7f", true), R"("\u00e9\u007f")");
  EXPECT_EQ(Quote("a\xffz"), "\"a\xEF\xBF\xBDz\"");
}

TEST(Json, LargeObjectsKeepOrderAndFindInConstantTime) {
  constexpr int kNumKeys = 100'000;
  std::string text = "{";
  for (int i = 0; i < 2 * kNumKeys; ++i) {
    text += fmt::format("{}\"key{}\":{}", i == 0 ? "" : ",", i % kNumKeys, i);
  }
  const Value value = Parse(text + "}").value();
  ASSERT_EQ(value.members().size(), static_cast<size_t>(kNumKeys));
  for (int i = 0; i < kNumKeys; ++i) {
    const std::string key = fmt::format("key{}", i);
    EXPECT_EQ(value.members()[static_cast<size_t>(i)].first, key);
    ASSERT_NE(value.Find(key), nullptr);
    EXPECT_EQ(value.Find(key)->to_int64(), i + kNumKeys);
  }
  EXPECT_EQ(value.Find("key"), nullptr);
  const Value copy = value;
  EXPECT_EQ(copy.Find("key77777")->to_int64(), 177777);
}

TEST(Json, SurrogateBytesAreAcceptedOnlyWhenAskedFor) {
  const std::string text = "[\"\xED\xA0\x80\"]";
  EXPECT_EQ(Message(text), "byte 2: expected UTF-8, found byte 0xED");
  const Value value = Parse(text, {.allow_surrogate_bytes = true}).value();
  EXPECT_EQ(Dump(value), R"(["\ud800"])");
  EXPECT_EQ(Dump(Parse(R"("\udd91\udd91")").value()), R"("\udd91\udd91")") << "no pair";
  EXPECT_TRUE(HasSurrogate(text));
  EXPECT_FALSE(HasSurrogate("\xED\x9F\xBF"));
}

// What Dump wrote reads back to the same, for random bytes that happen to parse.
TEST(Json, RandomTextsAreRefusedOrReadBack) {
  std::mt19937 random(7);
  const std::string alphabet = "[]{},:\"\\u0123eE+-. ntrNI\xE9";
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (size_t length = random() % 8; length > 0; --length) {
      text += alphabet[random() % alphabet.size()];
    }
    const Result<Value> value = Parse(text);
    if (!value) continue;
    ++accepted;
    const std::string dumped = Dump(*value);
    EXPECT_EQ(Dump(Parse(dumped).value()), dumped) << text;
  }
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace dsv4::json
