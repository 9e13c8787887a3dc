#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/support/time_limit.h"

namespace dsv4 {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> stop;
  bool operator==(const Outcome&) const = default;
};

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << '"' << outcome.text << "\", stop "
       << (outcome.stop ? static_cast<int>(*outcome.stop) : -1);
}

// By looking at every end of the whole text.
Outcome Naive(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !text.substr(0, end).ends_with(stops[i])) continue;
      if (!best || stops[i].size() > stops[*best].size()) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

// Whether some end of `seen` of more than `shown` bytes begins a stop: what may be held back.
size_t LongestHeld(const std::vector<std::string>& stops, const std::string& seen) {
  for (size_t from = 0; from < seen.size(); ++from) {
    for (const std::string& stop : stops) {
      if (stop.size() > seen.size() - from && stop.starts_with(seen.substr(from))) {
        return seen.size() - from;
      }
    }
  }
  return 0;
}

std::string RandomText(std::mt19937& random, size_t max_length, unsigned letters) {
  std::string text;
  for (size_t n = random() % (max_length + 1); n > 0; --n) {
    text += static_cast<char>('a' + random() % letters);
  }
  return text;
}

TEST(StopMatcher, AnySplitGivesWhatASearchOfTheWholeTextGives) {
  std::mt19937 random(3);
  int num_matched = 0;
  for (int round = 0; round < 40000; ++round) {
    const unsigned letters = 1 + static_cast<unsigned>(random() % 3);
    std::vector<std::string> stops(random() % 5);
    for (std::string& stop : stops) stop = RandomText(random, 6, letters);
    const std::string text = RandomText(random, 24, letters + 1);
    StopMatcher matcher(stops);
    Outcome outcome;
    for (size_t at = 0; at < text.size() && !outcome.stop;) {
      const size_t length = 1 + random() % 5;
      const auto output = matcher.Push(std::string_view(text).substr(at, length));
      at = std::min(text.size(), at + length);
      outcome.text += output.text;
      outcome.stop = output.stop;
      if (!outcome.stop) {
        ASSERT_EQ(outcome.text.size(), at - LongestHeld(stops, text.substr(0, at)));
      }
    }
    outcome.text += matcher.Flush();
    ASSERT_EQ(outcome, Naive(stops, text)) << text;
    num_matched += outcome.stop ? 1 : 0;
    // Flush leaves it as new.
    const auto again = matcher.Push(text);
    ASSERT_EQ((Outcome{again.text + matcher.Flush(), again.stop}), outcome);
  }
  EXPECT_GT(num_matched, 10000);
  EXPECT_LT(num_matched, 39000);
}

TEST(StopMatcher, TheEarliestEndWinsThenTheLongestThenTheFirst) {
  const auto whole = [](const std::vector<std::string>& stops, std::string_view text) {
    const auto output = StopMatcher(stops).Push(text);
    return Outcome{output.text, output.stop};
  };
  EXPECT_EQ(whole({"abcd", "bc"}, "xabcdx"), (Outcome{"xa", 1}));
  EXPECT_EQ(whole({"c", "abc", "bc"}, "xabc"), (Outcome{"x", 1}));
  EXPECT_EQ(whole({"ab", "ab"}, "ab"), (Outcome{"", 0}));
  EXPECT_EQ(whole({"", "b"}, "ab"), (Outcome{"a", 1}));
}

TEST(StopMatcher, WithoutStopsTextPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.Push("abc").text, "abc");
  StopMatcher empty({""});
  EXPECT_EQ(empty.Push("abc").text, "abc");
}

TEST(StopMatcher, AfterAMatchNothingComes) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Push("a stop b").stop, 0u);
  const auto output = matcher.Push("stop");
  EXPECT_EQ(output.text, "");
  EXPECT_EQ(output.stop, std::nullopt);
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcher, IsLinearWhereEveryByteAlmostMatches) {
  const size_t size = 1 << 20;
  StopMatcher matcher({std::string(size / 4, 'a') + "b", std::string(size / 4, 'a') + "c"});
  const auto begin = std::chrono::steady_clock::now();
  std::string shown;
  for (size_t i = 0; i < size; ++i) shown += matcher.Push("a").text;
  EXPECT_EQ(shown.size(), size - size / 4);
  EXPECT_EQ(matcher.Push("b").stop, 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, test::Within(10));
}

}  // namespace
}  // namespace dsv4
