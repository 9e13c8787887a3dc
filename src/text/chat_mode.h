#pragma once

#include <optional>
#include <string_view>

namespace dsv4::chat {

enum class Mode { kChat, kThinking };

// "chat" or "thinking"; nullopt otherwise.
inline std::optional<Mode> ModeFromName(std::string_view name) {
  if (name == "chat") return Mode::kChat;
  if (name == "thinking") return Mode::kThinking;
  return std::nullopt;
}

}  // namespace dsv4::chat
