// A whole completion in, the assistant's message out; strict, as the reference. For text as it
// comes see completion_stream.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_mode.h"
#include "text/wire_dialect.h"

namespace dsv4::chat {

struct ToolCall {
  std::string name;
  std::string
      arguments;  // JSON text of an object; values of parameters that are no strings as written
  bool operator==(const ToolCall&) const = default;
};

struct ParsedMessage {
  std::string content;
  std::string reasoning_content;
  std::vector<ToolCall> tool_calls;
  bool operator==(const ParsedMessage&) const = default;

  // {"role": "assistant", "content", "reasoning_content", "tool_calls": [{"type": "function",
  // "function": {"name", "arguments"}}]}
  json::Value ToJson() const;
};

// Errors name the byte offset, what was expected and what was found.
Result<ParsedMessage> ParseCompletion(const WireDialect& dialect, std::string_view text, Mode mode);

}  // namespace dsv4::chat
