// A made-up wire dialect that has no text in common with DeepSeek-V4's.
#pragma once

#include "text/wire_dialect.h"

namespace dsv4::testing {

inline const chat::WireDialect& OtherDialect() {
  static const auto& dialect = *new chat::WireDialect({
      .model_type = "made_up",
      .bos = "[BOS]",
      .eos = "[EOS]",
      .user = "[U]",
      .assistant = "[A]",
      .latest_reminder = "[N]",
      .think_start = "[[",
      .think_end = "]]",
      .dsml = "‡",
      .tasks = {{"sum", "[S]", false}, {"go", "[G]", true}},
      .calls = "function_calls",
      .invoke = "call",
      .parameter = "arg",
      .name = "id",
      .string = "text",
      .high_effort = "Think well.\n",
      .max_effort = "Think best.\n",
      .response_format_head = "Form: ",
      .tool_result_head = "{r}",
      .tool_result_tail = "{/r}",
      .unsupported_head = "(no ",
      .unsupported_tail = ")",
      .tools_head = "Say [[why]] first, then <‡function_calls>:\n",
      .tools_tail = "\nThat is all.",
  });
  return dialect;
}

}  // namespace dsv4::testing
