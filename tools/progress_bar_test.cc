#include "tools/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace dsv4::tools {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProgressText, ShowsShareRateAndTimeLeft) {
  EXPECT_EQ(ProgressText("synth", 1'100'000'000, 2'600'000'000, 3.5, 80),
            "synth  42% [==============>                   ] 1.10G of 2.60G  314M/s  5 s left");
}

TEST(ProgressText, EndsFullAndWithoutTimeLeft) {
  const std::string text = ProgressText("loading", 10, 10, 2, 60);
  EXPECT_THAT(text, HasSubstr("100% ["));
  EXPECT_THAT(text, HasSubstr("=] 10 of 10  5/s"));
  EXPECT_THAT(text, Not(HasSubstr("left")));
}

TEST(ProgressText, AnUnknownTotalShowsTheCountAlone) {
  EXPECT_EQ(ProgressText("reading", 4200, 0, 2, 80), "reading 4.20k  2.10k/s");
}

TEST(ProgressText, MoreThanTheTotalIsNoMoreThanFull) {
  EXPECT_THAT(ProgressText("x", 20, 10, 1, 80), HasSubstr("100%"));
}

TEST(ProgressText, NeverGetsLongerThanTheLine) {
  for (int columns = 0; columns < 100; ++columns) {
    EXPECT_LE(ProgressText("converting", 123456789, 987654321, 7, columns).size(),
              static_cast<size_t>(columns));
  }
}

TEST(ProgressText, RoundsCountsUpIntoTheNextSuffix) {
  EXPECT_THAT(ProgressText("x", 0, 999'999, 1, 80), HasSubstr("of 1.00M"));
  EXPECT_THAT(ProgressText("x", 0, 999, 1, 80), HasSubstr("of 999"));
}

class ProgressBarTest : public ::testing::Test {
 protected:
  void SetUp() override { file_ = open_memstream(&buffer_, &size_); }
  void TearDown() override {
    std::fclose(file_);
    std::free(buffer_);
  }
  ProgressBar::Options Options() {
    return {.enabled = true, .columns = 60, .out = file_, .now = [this] { return now_; }};
  }
  std::string Drawn() {
    std::fflush(file_);
    return std::string(buffer_, size_);
  }

  std::FILE* file_ = nullptr;
  char* buffer_ = nullptr;
  size_t size_ = 0;
  std::chrono::steady_clock::time_point now_{};
};

TEST_F(ProgressBarTest, LeavesNoTraceOfAShortTask) {
  ProgressBar bar(Options());
  bar.Start("loading", 100);
  now_ += milliseconds(200);
  bar.Update(50);
  bar.Finish();
  EXPECT_EQ(Drawn(), "");
}

TEST_F(ProgressBarTest, DrawsInPlaceAndErasesAtTheEnd) {
  ProgressBar bar(Options());
  bar.Start("loading", 100);
  now_ += milliseconds(500);
  bar.Update(50);
  EXPECT_THAT(Drawn(), HasSubstr("\r\x1b[Kloading  50%"));
  EXPECT_THAT(Drawn(), Not(HasSubstr("\n")));
  bar.Finish();
  EXPECT_THAT(Drawn(), EndsWith("\r\x1b[K"));
}

TEST_F(ProgressBarTest, RedrawsAtMostTenTimesASecond) {
  ProgressBar bar(Options());
  bar.Start("loading", 1000);
  now_ += milliseconds(500);
  bar.Update(1);
  const std::string once = Drawn();
  now_ += milliseconds(50);
  bar.Update(2);
  EXPECT_EQ(Drawn(), once);
  now_ += milliseconds(50);
  bar.Update(3);
  EXPECT_GT(Drawn().size(), once.size());
}

TEST_F(ProgressBarTest, DrawsNothingWhereItIsNotEnabled) {
  ProgressBar::Options options = Options();
  options.enabled = false;
  ProgressBar bar(options);
  bar.Start("loading", 100);
  now_ += milliseconds(5000);
  bar.Update(50);
  bar.Finish();
  EXPECT_EQ(Drawn(), "");
}

TEST_F(ProgressBarTest, ColoursOnlyWhereAsked) {
  ProgressBar::Options options = Options();
  options.color = true;
  ProgressBar bar(options);
  bar.Start("loading", 100);
  now_ += milliseconds(500);
  bar.Update(50);
  EXPECT_THAT(Drawn(), HasSubstr("\x1b[36mloading"));
}

TEST(ForTerminal, QuietAndNoColorAreHonoured) {
  EXPECT_FALSE(ProgressBar::ForTerminal(true).enabled);
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(ProgressBar::ForTerminal(false).color);
  unsetenv("NO_COLOR");
  EXPECT_TRUE(ProgressBar::ForTerminal(false).color);
}

}  // namespace
}  // namespace dsv4::tools
