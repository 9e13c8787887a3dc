// The constants of the chat wire format: byte for byte what the model was trained on.
#pragma once

#include <array>
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

// The control tokens.
inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kThinkStart = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kLatestReminder = "<｜latest_reminder｜>";

struct TaskToken {
  std::string_view name;
  std::string_view token;
};
inline constexpr std::array<TaskToken, 6> kTasks = {{
    {"action", "<｜action｜>"},
    {"query", "<｜query｜>"},
    {"authority", "<｜authority｜>"},
    {"domain", "<｜domain｜>"},
    {"title", "<｜title｜>"},
    {"read_url", "<｜read_url｜>"},
}};

// What goes before the JSON text of a response format.
inline constexpr std::string_view kResponseFormatHead =
    "## Response Format:\n"
    "\n"
    "You MUST strictly adhere to the following schema to reply:\n";
inline constexpr std::string_view kToolResultHead = "<tool_result>";
inline constexpr std::string_view kToolResultTail = "</tool_result>";
inline constexpr std::string_view kMaxEffort =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the "
    "problem to resolve the root cause, rigorously stress-testing your logic against "
    "all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every "
    "intermediate step, considered alternative, and rejected hypothesis to ensure "
    "absolutely no assumption is left unchecked.\n"
    "\n";

// What goes before and after the lines of the tools' schemas.
inline constexpr std::string_view kToolsHead =
    "## Tools\n"
    "\n"
    "You have access to a set of tools to help answer the user's question. You can "
    "invoke tools by writing a \"<｜DSML｜tool_calls>\" block like the following:\n"
    "\n"
    "<｜DSML｜tool_calls>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜parameter name=\"$PARAMETER_NAME\" "
    "string=\"true|false\">$PARAMETER_VALUE</｜DSML｜parameter>\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "<｜DSML｜invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜invoke>\n"
    "</｜DSML｜tool_calls>\n"
    "\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all "
    "other types (numbers, booleans, arrays, objects), pass the value in JSON format "
    "and set `string=\"false\"`.\n"
    "\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your "
    "complete reasoning inside <think>...</think> BEFORE any tool calls or final "
    "response.\n"
    "\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n"
    "\n"
    "### Available Tool Schemas\n"
    "\n";
inline constexpr std::string_view kToolsTail =
    "\n"
    "\n"
    "You MUST strictly follow the above defined tool name and parameter schemas to "
    "invoke tool calls.\n";

// The calls block: head, invokes, tail. An invoke is head, name, `">` and newline, parameters
// joined by newlines, newline and tail. A parameter is head, name, one of the string marks, value,
// tail.
inline constexpr std::string_view kCallsHead = "<｜DSML｜tool_calls>\n";
inline constexpr std::string_view kCallsTail = "</｜DSML｜tool_calls>";
inline constexpr std::string_view kInvokeHead = "<｜DSML｜invoke name=\"";
inline constexpr std::string_view kInvokeTail = "</｜DSML｜invoke>";
inline constexpr std::string_view kParameterHead = "<｜DSML｜parameter name=\"";
inline constexpr std::string_view kParameterTail = "</｜DSML｜parameter>";
inline constexpr std::string_view kStringTrue = "\" string=\"true\">";
inline constexpr std::string_view kStringFalse = "\" string=\"false\">";

}  // namespace dsv4::chat
