#include "tools/chat_commands.h"

#include <fmt/format.h>

namespace dsv4::tools {
namespace {

using Kind = ChatCommand::Kind;

enum class Takes { kNothing, kSwitch, kFile, kText };

struct Entry {
  std::string_view name;
  Takes takes;
  Kind kind;
  std::string_view usage;
  std::string_view meaning;
};

constexpr Entry kEntries[] = {
    {"/exit", Takes::kNothing, Kind::kExit, "/exit", "end the program, as Ctrl-D does"},
    {"/clear", Takes::kNothing, Kind::kClear, "/clear",
     "forget the conversation; the system text stays"},
    {"/help", Takes::kNothing, Kind::kHelp, "/help", "show this"},
    {"/think", Takes::kSwitch, Kind::kThinkOn, "/think on|off|max",
     "think before answering, or do not, or think as hard as can be"},
    {"/system", Takes::kText, Kind::kSystem, "/system TEXT",
     "what the model is told first; without TEXT nothing"},
    {"/save", Takes::kFile, Kind::kSave, "/save FILE", "write the conversation as JSON messages"},
    {"/load", Takes::kFile, Kind::kLoad, "/load FILE",
     "go on from a saved conversation; the system text stays where it has none"},
};

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

Result<ChatCommand> Parse(const Entry& entry, std::string_view argument) {
  ChatCommand command{entry.kind};
  switch (entry.takes) {
    case Takes::kNothing:
      if (argument.empty()) return command;
      break;
    case Takes::kSwitch:
      if (argument == "on") return command;
      if (argument == "off") return ChatCommand{Kind::kThinkOff};
      if (argument == "max") return ChatCommand{Kind::kThinkMax};
      break;
    case Takes::kFile:
      if (argument.empty()) break;
      [[fallthrough]];
    case Takes::kText:
      command.argument = argument;
      return command;
  }
  return UsageError("{}: expected {}, found {:?}", entry.name, entry.usage, argument);
}

}  // namespace

bool IsChatCommand(std::string_view line) {
  return line.starts_with('/') && !line.starts_with("//");
}

std::string_view ChatText(std::string_view line) {
  return line.starts_with("//") ? line.substr(1) : line;
}

Result<ChatCommand> ParseChatCommand(std::string_view line) {
  const std::string_view name = line.substr(0, line.find_first_of(" \t"));
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return Parse(entry, Trim(line.substr(name.size())));
  }
  std::string known;
  for (const Entry& entry : kEntries) known += fmt::format(" {}", entry.name);
  return UsageError("no command {}; there are{}", name, known);
}

std::string ChatHelp() {
  std::string text;
  for (const Entry& entry : kEntries) {
    text += fmt::format("  {:<18} {}\n", entry.usage, entry.meaning);
  }
  text += "  Ctrl-C             stop the answer; what came of it stays in the conversation\n";
  text += "  //…                say a line that begins with /\n";
  return text;
}

}  // namespace dsv4::tools
