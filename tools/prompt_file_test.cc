#include "tools/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dsv4::tools {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SplitPromptsTest, BlankLinesStandBetweenPrompts) {
  EXPECT_THAT(SplitPrompts("one\ntwo\n\nthree"), ElementsAre("one\ntwo", "three"));
  EXPECT_THAT(SplitPrompts("\n\n one \n\n\n \t\ntwo\n\n"), ElementsAre(" one ", "two"));
  EXPECT_THAT(SplitPrompts("one\r\ntwo\r\n\r\nthree\r\n"), ElementsAre("one\ntwo", "three"));
  EXPECT_THAT(SplitPrompts("one"), ElementsAre("one"));
  EXPECT_THAT(SplitPrompts(" \n\n"), IsEmpty());
  EXPECT_THAT(SplitPrompts(""), IsEmpty());
}

}  // namespace
}  // namespace dsv4::tools
