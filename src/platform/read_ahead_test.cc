#include "platform/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/recorded_reads.h"

namespace dsv4 {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Recorder : public testing::RecordedReads {
 public:
  Recorder() : RecordedReads(kBuffer) {}
  static std::span<const std::byte> At(size_t begin, size_t size) {
    return std::span(kBuffer).subspan(begin, size);
  }

 private:
  static constexpr std::array<std::byte, 1000> kBuffer = {};
};

TEST(ReadAhead, ReadsInTheOrderOfAsking) {
  Recorder recorder;
  ReadAhead reads(1000, recorder.Reading());
  reads.Begin();
  reads.Ask(recorder.At(500, 100));
  reads.Ask(recorder.At(0, 20));
  reads.Ask(recorder.At(700, 300));
  reads.Go();
  EXPECT_THAT(recorder.Get(3), ElementsAre("500+100", "0+20", "700+300"));
}

TEST(ReadAhead, KeepsAWindowAheadOfWhatIsUsed) {
  Recorder recorder;
  ReadAhead reads(100, recorder.Reading());
  reads.Begin();
  for (size_t i = 0; i < 5; ++i) reads.Ask(recorder.At(60 * i, 60));
  reads.Go();
  EXPECT_THAT(recorder.Get(2), ElementsAre("0+60", "60+60"));
  reads.Used(20);
  EXPECT_THAT(recorder.Get(2), ElementsAre("0+60", "60+60")) << "120 are asked for before it";
  reads.Used(1);
  EXPECT_THAT(recorder.Get(3), ElementsAre("0+60", "60+60", "120+60"));
  reads.Used(1000);
  EXPECT_THAT(recorder.Get(5), ElementsAre("0+60", "60+60", "120+60", "180+60", "240+60"));
}

TEST(ReadAhead, ANewRoundDropsWhatIsLeftOfTheLast) {
  Recorder recorder;
  ReadAhead reads(10, recorder.Reading());
  for (const size_t place : {0, 100, 200}) {
    reads.Begin();
    reads.Ask(recorder.At(place, 50));
    reads.Ask(recorder.At(place + 50, 50));
    reads.Go();
    recorder.Get(place / 100 + 1);
  }
  EXPECT_THAT(recorder.Get(3), ElementsAre("0+50", "100+50", "200+50"));
}

TEST(ReadAhead, ReadsNothingWithoutBeingAskedAndEndsWhileWaiting) {
  Recorder recorder;
  {
    ReadAhead reads(10, recorder.Reading());
    EXPECT_THAT(recorder.Get(0), IsEmpty());
  }
  ReadAhead reads(10, recorder.Reading());
  reads.Begin();
  reads.Ask(recorder.At(0, 50));
  reads.Ask(recorder.At(50, 50));
  reads.Go();
  EXPECT_THAT(recorder.Get(1), ElementsAre("0+50"));
}

TEST(ReadAhead, MoreThanItsRoomIsLeftOut) {
  Recorder recorder;
  ReadAhead reads(1, recorder.Reading());
  reads.Begin();
  for (size_t i = 0; i < ReadAhead::kMostAsked + 10; ++i) reads.Ask(recorder.At(0, 1));
  reads.Go();
  reads.Used(1'000'000);
  const size_t count = recorder.Get(ReadAhead::kMostAsked).size();
  EXPECT_GE(count, ReadAhead::kMostAsked);
  EXPECT_LE(count, ReadAhead::kMostAsked + 10);
}

}  // namespace
}  // namespace dsv4
