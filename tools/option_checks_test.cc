#include "tools/option_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dsv4::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kLargest = std::numeric_limits<uint64_t>::max();

TEST(OptionChecks, WholeNumbersAreDecimalAndInRange) {
  const CLI::Validator any = WholeNumber(0, kLargest);
  for (std::string text : {"0", "7", "18446744073709551615"}) EXPECT_THAT(any(text), IsEmpty());
  for (std::string text :
       {"", "-1", "18446744073709551616", "1.5", "1e3", "0x10", " 1", "1 ", "+1", "nan"}) {
    EXPECT_THAT(any(text), HasSubstr("expected a whole number from 0 to 18446744073709551615"))
        << text;
  }
  const CLI::Validator few = WholeNumber(1, 1024);
  for (std::string text : {"0", "1025"}) {
    EXPECT_EQ(few(text), "expected a whole number from 1 to 1024, found \"" + text + "\"");
  }
  const CLI::Validator positive = WholeNumberFrom(1);
  for (std::string text : {"0", "9223372036854775808"}) {
    EXPECT_THAT(positive(text), HasSubstr("expected a whole number of at least 1, below 2^63"));
  }
}

TEST(OptionChecks, LeadingZerosAreNotOctal) {
  std::string text = "010";
  EXPECT_THAT(WholeNumberFrom(1)(text), IsEmpty());
  EXPECT_EQ(text, "10");
}

TEST(OptionChecks, RealNumbersAreInRangeAndNotNan) {
  const CLI::Validator closed = RealNumber(0, 100);
  for (std::string text : {"0", "-0", "1e-9", "100"}) EXPECT_THAT(closed(text), IsEmpty());
  for (std::string text : {"nan", "-nan", "inf", "-1e-9", "100.1", "x"}) {
    EXPECT_THAT(closed(text), HasSubstr("expected a number from 0 to 100")) << text;
  }
  const CLI::Validator open = RealNumber(0, 1, true);
  for (std::string text : {"1", "1e-9"}) EXPECT_THAT(open(text), IsEmpty());
  for (std::string text : {"0", "-0", "1e-300", "nan"}) {
    EXPECT_THAT(open(text), HasSubstr("expected a number from above 0 to 1")) << text;
  }
}

}  // namespace
}  // namespace dsv4::tools
