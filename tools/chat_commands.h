// The lines of a chat that are commands.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dsv4::tools {

struct ChatCommand {
  enum class Kind { kExit, kClear, kHelp, kThinkOn, kThinkOff, kThinkMax, kSystem, kSave, kLoad };
  Kind kind = Kind::kHelp;
  std::string argument = {};  // of kSystem (may be empty), kSave and kLoad
  bool operator==(const ChatCommand&) const = default;
};

// Whether the line is a command. "//x" is not: it says "/x" to the model.
bool IsChatCommand(std::string_view line);
// What the line says to the model where it is no command.
std::string_view ChatText(std::string_view line);
// The error says which commands there are, or what the command takes.
Result<ChatCommand> ParseChatCommand(std::string_view line);
std::string ChatHelp();

}  // namespace dsv4::tools
