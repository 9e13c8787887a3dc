// The chat format of the family DeepSeek-V4.
#include "text/wire_dialect.h"

namespace dsv4::chat {
namespace {

constexpr char kMaxEffort[] =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the "
    "problem to resolve the root cause, rigorously stress-testing your logic against "
    "all potential paths, edge cases, and adversarial scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every "
    "intermediate step, considered alternative, and rejected hypothesis to ensure "
    "absolutely no assumption is left unchecked.\n"
    "\n";

constexpr char kToolsHead[] =
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

constexpr char kToolsTail[] =
    "\n"
    "\n"
    "You MUST strictly follow the above defined tool name and parameter schemas to "
    "invoke tool calls.\n";

}  // namespace

const WireDialect& DeepSeekV4() {
  // Never destroyed: what was given it may live as long as the program.
  static const auto& dialect = *new WireDialect({
      .model_type = "deepseek_v4",
      .bos = "<｜begin▁of▁sentence｜>",
      .eos = "<｜end▁of▁sentence｜>",
      .user = "<｜User｜>",
      .assistant = "<｜Assistant｜>",
      .latest_reminder = "<｜latest_reminder｜>",
      .think_start = "<think>",
      .think_end = "</think>",
      .dsml = "｜DSML｜",
      .tasks = {{"action", "<｜action｜>", true},
                {"query", "<｜query｜>", false},
                {"authority", "<｜authority｜>", false},
                {"domain", "<｜domain｜>", false},
                {"title", "<｜title｜>", false},
                {"read_url", "<｜read_url｜>", false}},
      .calls = "tool_calls",
      .invoke = "invoke",
      .parameter = "parameter",
      .name = "name",
      .string = "string",
      .high_effort = "",
      .max_effort = kMaxEffort,
      .response_format_head = "## Response Format:\n"
                              "\n"
                              "You MUST strictly adhere to the following schema to reply:\n",
      .tool_result_head = "<tool_result>",
      .tool_result_tail = "</tool_result>",
      .unsupported_head = "[Unsupported ",
      .unsupported_tail = "]",
      .tools_head = kToolsHead,
      .tools_tail = kToolsTail,
  });
  return dialect;
}

}  // namespace dsv4::chat
