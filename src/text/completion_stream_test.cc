#include "text/completion_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "tests/support/json_lines.h"

namespace dsv4::chat {
namespace {

const std::string& kBos = DeepSeekV4().bos;
const std::string& kEos = DeepSeekV4().eos;

// What a stream came to.
struct Outcome {
  ParsedMessage message;
  bool stopped = false;
  bool malformed = false;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << json::Dump(outcome.message.ToJson()) << (outcome.stopped ? " stop" : " cut")
             << (outcome.malformed ? " malformed" : "");
}

// Checks on the way what every sequence of events must keep to.
class Collector {
 public:
  void Add(const std::vector<StreamEvent>& events) {
    using Kind = StreamEvent::Kind;
    for (const StreamEvent& event : events) {
      EXPECT_FALSE(finished_) << "an event after the finish";
      EXPECT_TRUE(utf8::IsValid(event.text)) << event.text;
      EXPECT_EQ(event.kind == Kind::kArguments || event.kind == Kind::kCallEnd, in_call_)
          << "an argument outside a call or a text inside";
      if (event.kind == Kind::kCallStart) in_call_ = true;
      if (event.kind == Kind::kCallEnd) in_call_ = false;
      if (event.kind == Kind::kFinish) {
        finished_ = true;
        outcome_.stopped = event.stopped;
        outcome_.malformed = event.malformed;
      }
      builder_.Add(event);
    }
  }

  Outcome Take() {
    EXPECT_TRUE(finished_);
    EXPECT_FALSE(in_call_);
    outcome_.message = builder_.message();
    return outcome_;
  }

 private:
  MessageBuilder builder_;
  Outcome outcome_;
  bool in_call_ = false;
  bool finished_ = false;
};

// Fed in pieces that end at `cuts` (ascending) and at the end.
Outcome Stream(std::string_view text, Mode mode, const std::vector<size_t>& cuts = {}) {
  CompletionStream stream(DeepSeekV4(), mode);
  Collector collector;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    collector.Add(stream.Feed(text.substr(begin, cut - begin)));
    begin = cut;
  }
  collector.Add(stream.Feed(text.substr(begin)));
  collector.Add(stream.Finish());
  EXPECT_TRUE(stream.Finish().empty());
  return collector.Take();
}

std::vector<size_t> ByteByByte(std::string_view text) {
  std::vector<size_t> cuts;
  for (size_t i = 1; i < text.size(); ++i) cuts.push_back(i);
  return cuts;
}

std::vector<size_t> RandomCuts(std::string_view text, std::mt19937& random) {
  std::vector<size_t> cuts;
  const size_t step = 1 + random() % 40;
  for (size_t at = random() % step; at < text.size(); at += 1 + random() % step) cuts.push_back(at);
  return cuts;
}

struct Completion {
  std::string id;
  std::string text;
  Mode mode;
};

std::vector<Completion> GoldenCompletions() {
  std::vector<Completion> completions;
  for (const json::Value& line : testing::ReadJsonLines("encoding/cases.jsonl")) {
    if (line.Find("completion") == nullptr) continue;
    completions.push_back({line.Find("id")->as_string(), line.Find("completion")->as_string(),
                           *ModeFromName(line.Find("mode")->as_string())});
  }
  EXPECT_EQ(completions.size(), 250u);
  return completions;
}

// The stream agrees with the strict parser: the same message where that succeeds, and malformed or
// cut where it does not.
void ExpectAgreesWithStrict(const Completion& completion, const Outcome& outcome) {
  const auto strict = ParseCompletion(DeepSeekV4(), completion.text, completion.mode);
  if (strict) {
    EXPECT_EQ(outcome.message, *strict) << completion.id;
    EXPECT_FALSE(outcome.malformed) << completion.id;
  }
  const size_t eos = completion.text.rfind(kEos);
  const bool ends_with_eos =
      eos != std::string::npos && eos + kEos.size() == completion.text.size();
  if (!strict && outcome.stopped && ends_with_eos && utf8::IsValid(completion.text) &&
      completion.text.find(kEos) == eos) {
    EXPECT_TRUE(outcome.malformed) << completion.text << strict.error().message;
  }
}

TEST(CompletionStream, EverySplitOfEveryGoldenCompletionEndsInTheSameMessage) {
  std::mt19937 random(20250101);
  for (const Completion& completion : GoldenCompletions()) {
    const Outcome whole = Stream(completion.text, completion.mode);
    ExpectAgreesWithStrict(completion, whole);
    for (size_t cut = 0; cut <= completion.text.size(); ++cut) {
      ASSERT_EQ(Stream(completion.text, completion.mode, {cut}), whole) << completion.id << cut;
    }
    ASSERT_EQ(Stream(completion.text, completion.mode, ByteByByte(completion.text)), whole);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(Stream(completion.text, completion.mode, RandomCuts(completion.text, random)),
                whole)
          << completion.id;
    }
  }
}

// Cuts out, doubles, replaces and inserts pieces: markers, halves of them, bytes that are no UTF-8.
std::string Mutate(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"</think>",
                                                   "<think>",
                                                   std::string(kEos),
                                                   std::string(kBos),
                                                   "｜DSML｜",
                                                   "\n\n<｜DSML｜tool_calls>\n",
                                                   "</｜DSML｜tool_calls>",
                                                   "<｜DSML｜invoke name=\"",
                                                   "\">\n",
                                                   "</｜DSML｜invoke>\n",
                                                   "<｜DSML｜parameter name=\"",
                                                   "\" string=\"true\">",
                                                   "\" string=\"false\">",
                                                   "</｜DSML｜parameter>\n",
                                                   "/｜DSML｜parameter",
                                                   "\n",
                                                   "<",
                                                   "\"",
                                                   "x",
                                                   "\xff",
                                                   "\xe2\x80",
                                                   "é",
                                                   " ",
                                                   ">"};
  for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
    const size_t at = random() % (text.size() + 1);
    const size_t length = std::min<size_t>(text.size() - at, random() % 12);
    switch (random() % 4) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, kPieces[random() % kPieces.size()]);
        break;
      default:
        text.replace(at, length, kPieces[random() % kPieces.size()]);
    }
  }
  return random() % 8 == 0 ? text.substr(0, random() % (text.size() + 1)) : text;
}

TEST(CompletionStream, MutatedCompletionsDoNotDependOnTheSplit) {
  std::mt19937 random(7);
  int num_strict = 0;
  int num_malformed = 0;
  for (const Completion& golden : GoldenCompletions()) {
    for (int i = 0; i < 40; ++i) {
      const Completion mutated{golden.id, Mutate(golden.text, random), golden.mode};
      const Outcome whole = Stream(mutated.text, mutated.mode);
      ExpectAgreesWithStrict(mutated, whole);
      num_strict += ParseCompletion(DeepSeekV4(), mutated.text, mutated.mode) ? 1 : 0;
      num_malformed += whole.malformed ? 1 : 0;
      ASSERT_EQ(Stream(mutated.text, mutated.mode, ByteByByte(mutated.text)), whole)
          << mutated.text;
      for (int k = 0; k < 4; ++k) {
        ASSERT_EQ(Stream(mutated.text, mutated.mode, RandomCuts(mutated.text, random)), whole)
            << mutated.text;
      }
    }
  }
  EXPECT_GT(num_strict, 400);
  EXPECT_GT(num_malformed, 1000);
}

// Every text that is not part of a marker comes out again, in order.
TEST(CompletionStream, RandomMarkerSoupLosesNoText) {
  static const std::vector<std::string> kParts = {"</think>",
                                                  "\n\n<｜DSML｜tool_calls>\n",
                                                  "</｜DSML｜tool_calls>",
                                                  "<｜DSML｜invoke name=\"",
                                                  "\">\n",
                                                  "</｜DSML｜invoke>\n",
                                                  "<｜DSML｜parameter name=\"",
                                                  "\" string=\"true\">",
                                                  "\" string=\"false\">",
                                                  "</｜DSML｜parameter>\n",
                                                  "\n\n"};
  std::mt19937 random(11);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    std::string letters;
    for (size_t n = random() % 24; n > 0; --n) {
      if (random() % 3 == 0) {
        // Capital letters stand in no marker.
        const char letter = static_cast<char>('E' + random() % 7);
        letters += letter;
        text += letter;
      } else {
        text += kParts[random() % kParts.size()];
      }
    }
    const Mode mode = random() % 2 == 0 ? Mode::kChat : Mode::kThinking;
    CompletionStream stream(DeepSeekV4(), mode);
    std::vector<StreamEvent> events = stream.Feed(text);
    for (StreamEvent& event : stream.Finish()) events.push_back(std::move(event));
    std::string found;
    for (const StreamEvent& event : events) {
      for (const char c : event.text) {
        if (c >= 'E' && c <= 'K') found += c;
      }
    }
    ASSERT_EQ(found, letters) << text;
    ASSERT_EQ(Stream(text, mode, ByteByByte(text)), Stream(text, mode)) << text;
  }
}

Outcome Cut(ParsedMessage message, bool malformed) {
  return {std::move(message), false, malformed};
}
Outcome Stop(ParsedMessage message, bool malformed) {
  return {std::move(message), true, malformed};
}

const std::string kOpen = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
const std::string kStringParameter = "<｜DSML｜parameter name=\"k\" string=\"true\">";

TEST(CompletionStream, RecoversByTheDocumentedRule) {
  const auto chat = [](const std::string& text) { return Stream(text, Mode::kChat); };
  const std::string eos(kEos);
  // Stray markers are text.
  EXPECT_EQ(chat("a</think>b" + eos), Stop({"a</think>b", "", {}}, true));
  EXPECT_EQ(Stream("a" + eos, Mode::kThinking), Stop({"", "a", {}}, true));
  EXPECT_EQ(Stream("a", Mode::kThinking), Cut({"", "a", {}}, false));
  EXPECT_EQ(chat("a\n\n<｜DSML｜tool_"), Cut({"a\n\n<｜DSML｜tool_", "", {}}, true));
  // A mismatch before any event: the whole opening is text.
  EXPECT_EQ(chat("a\n\n<｜DSML｜tool_calls>\nx" + eos),
            Stop({"a\n\n<｜DSML｜tool_calls>\nx", "", {}}, true));
  // A mismatch inside a call closes it.
  EXPECT_EQ(chat(kOpen + kStringParameter + "v/｜DSML｜parameter" + eos),
            Stop({"/｜DSML｜parameter", "", {{"f", "{\"k\": \"v\"}"}}}, true));
  EXPECT_EQ(chat(kOpen + kStringParameter + "v</｜DSML｜parameter>\nx" + eos),
            Stop({"x", "", {{"f", "{\"k\": \"v\"}"}}}, true));
  EXPECT_EQ(chat(kOpen + kStringParameter + "v</｜DSML｜parameter>\n" + eos),
            Stop({"", "", {{"f", "{\"k\": \"v\"}"}}}, true));
  // EOS inside a value ends only the whole stream.
  EXPECT_EQ(chat(kOpen + kStringParameter + "v" + eos),
            Stop({"", "", {{"f", "{\"k\": \"v\"}"}}}, true));
  EXPECT_EQ(chat(kOpen + kStringParameter + "v" + eos + "w"),
            Cut({"", "", {{"f", "{\"k\": \"v" + eos + "w\"}"}}}, false));
  // A cut closes what is open.
  EXPECT_EQ(chat(kOpen + kStringParameter + "a\"b"),
            Cut({"", "", {{"f", "{\"k\": \"a\\\"b\"}"}}}, false));
  // A name that comes twice stands twice.
  const std::string twice = kStringParameter + "1</｜DSML｜parameter>\n" + kStringParameter +
                            "2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  EXPECT_EQ(chat(kOpen + twice + eos),
            Stop({"", "", {{"f", "{\"k\": \"1\", \"k\": \"2\"}"}}}, true));
  // Text after the block is content; bytes after EOS are nothing.
  EXPECT_EQ(chat(kOpen + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>x" + eos + "y\xff"),
            Stop({"x", "", {{"f", "{}"}}}, true));
  const std::string block = kOpen + "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  EXPECT_EQ(chat(block + block + eos), Stop({"", "", {{"f", "{}"}, {"f", "{}"}}}, true));
  EXPECT_EQ(chat("a" + eos + "\xff<think>"), Stop({"a", "", {}}, false));
  EXPECT_EQ(chat("a\xff" + eos), Stop({"a\xEF\xBF\xBD", "", {}}, false));
}

TEST(CompletionStream, HoldsBackOnlyWhatMayBecomeAMarker) {
  CompletionStream stream(DeepSeekV4(), Mode::kThinking);
  const auto text_of = [](const std::vector<StreamEvent>& events) {
    std::string text;
    for (const StreamEvent& event : events) text += event.text;
    return text;
  };
  EXPECT_EQ(text_of(stream.Feed("ab<")), "ab");
  EXPECT_EQ(text_of(stream.Feed("x")), "<x");
  EXPECT_EQ(text_of(stream.Feed("\n\n")), "\n\n") << "a block counts only in content";
  EXPECT_EQ(text_of(stream.Feed("</think>c\n")), "c");
  EXPECT_EQ(text_of(stream.Feed("\n")), "");
  EXPECT_EQ(text_of(stream.Feed("\n")), "\n");
  EXPECT_EQ(text_of(stream.Feed("d\xF0\x9F")), "\n\nd");
  EXPECT_EQ(text_of(stream.Feed("\xA6\x91")), "🦑");
  EXPECT_EQ(text_of(stream.Feed(kOpen + kStringParameter)), "f{\"k\": \"");
  EXPECT_EQ(text_of(stream.Feed("\"\n<")), "\\\"\\n");
  EXPECT_EQ(text_of(stream.Feed("/b")), "</b");
}

TEST(CompletionStream, LongNamesAndManyOpeningsTakeLinearTime) {
  const std::string endless = kOpen.substr(0, kOpen.size() - 3) + std::string(2'000'000, 'n');
  const Outcome outcome = Stream(endless, Mode::kChat);
  EXPECT_EQ(outcome, Cut({endless, "", {}}, true));
  std::string openings;
  while (openings.size() < 1'000'000) openings += kOpen.substr(0, kOpen.size() - 3);
  EXPECT_EQ(Stream(openings, Mode::kChat), Cut({openings, "", {}}, true));
  // Calls of one kind only: what the other kinds begin with never comes.
  std::string calls;
  for (int i = 0; i < 20'000; ++i) {
    calls += "<｜DSML｜invoke name=\"f\">\n\n</｜DSML｜invoke>\n";
  }
  const std::string block = "\n\n<｜DSML｜tool_calls>\n" + calls + "</｜DSML｜tool_calls>";
  EXPECT_EQ(Stream(block, Mode::kChat).message,
            ParseCompletion(DeepSeekV4(), block, Mode::kChat).value());
  // On both sides of the limit, in one piece and in many.
  for (size_t length = kMaxHeadBytes - 60; length < kMaxHeadBytes + 60; length += 3) {
    const std::string text = kOpen.substr(0, kOpen.size() - 3) + std::string(length, 'n') +
                             "\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
    std::vector<size_t> cuts = {length};
    for (size_t cut = length + 1; cut < text.size(); ++cut) cuts.push_back(cut);
    const Outcome whole = Stream(text, Mode::kChat);
    EXPECT_EQ(Stream(text, Mode::kChat, cuts), whole) << length;
    EXPECT_EQ(whole.malformed, length + 10 > kMaxHeadBytes) << length;
  }
}

}  // namespace
}  // namespace dsv4::chat
