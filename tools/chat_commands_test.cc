#include "tools/chat_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/chat_printer.h"

namespace dsv4::tools {
namespace {

using testing::HasSubstr;
using Kind = ChatCommand::Kind;

TEST(ChatCommandsTest, EachCommandIsUnderstood) {
  const std::pair<const char*, ChatCommand> cases[] = {
      {"/exit", {Kind::kExit}},
      {"/clear ", {Kind::kClear}},
      {"/help", {Kind::kHelp}},
      {"/think on", {Kind::kThinkOn}},
      {"/think\toff ", {Kind::kThinkOff}},
      {"/think max", {Kind::kThinkMax}},
      {"/system  Be brief. ", {Kind::kSystem, "Be brief."}},
      {"/system", {Kind::kSystem, ""}},
      {"/save a b.json", {Kind::kSave, "a b.json"}},
      {"/load x", {Kind::kLoad, "x"}},
  };
  for (const auto& [line, expected] : cases) {
    const auto command = ParseChatCommand(line);
    ASSERT_TRUE(command) << line << ": " << command.error().message;
    EXPECT_EQ(*command, expected) << line;
    EXPECT_TRUE(IsChatCommand(line));
  }
}

TEST(ChatCommandsTest, AWrongOneSaysWhatThereIs) {
  const std::pair<const char*, const char*> cases[] = {
      {"/nope", "no command /nope; there are /exit /clear /help /think /system /save /load"},
      {"/", "no command /; there are"},
      {"/think", "/think: expected /think on|off|max"},
      {"/think loud", "/think on|off|max"},
      {"/save", "/save: expected /save FILE"},
      {"/exit now", "/exit: expected /exit"},
  };
  for (const auto& [line, words] : cases) {
    const auto command = ParseChatCommand(line);
    ASSERT_FALSE(command) << line;
    EXPECT_THAT(command.error().message, HasSubstr(words));
  }
}

TEST(ChatCommandsTest, TwoSlashesSayOne) {
  EXPECT_FALSE(IsChatCommand("//etc"));
  EXPECT_EQ(ChatText("//etc"), "/etc");
  EXPECT_EQ(ChatText("a//b"), "a//b");
  EXPECT_FALSE(IsChatCommand("hello /exit"));
}

TEST(ChatPrinterTest, ATerminalIsNotDrivenByTheText) {
  EXPECT_EQ(WithoutControls("a\x1B[31mb\tc\nd\rä\x7F世\u009B"),
            "a\uFFFD[31mb\tc\nd\uFFFDä\uFFFD世\uFFFD");
}

}  // namespace
}  // namespace dsv4::tools
