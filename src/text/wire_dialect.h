// The wire dialect: the texts of the chat format that a family of models was trained on, byte for
// byte. A loaded model names its own (FindWireDialect); whatever encodes or parses is given it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dsv4::chat {

struct TaskToken {
  std::string name;
  std::string token;
  bool opens_turn;  // the assistant's turn and its thinking are opened before the token
};

// What a dialect is told by. Control tokens and words are not empty, and no control token begins
// another.
struct WireTexts {
  std::string model_type;  // as config.json names the family

  // The control tokens, each one token of the tokenizer; `dsml` marks the tags of calls.
  std::string bos, eos;
  std::string user, assistant, latest_reminder;
  std::string think_start, think_end;
  std::string dsml;
  std::vector<TaskToken> tasks;

  // The words of the tags of calls: <{dsml}{calls}>, <{dsml}{invoke} {name}="…">,
  // <{dsml}{parameter} {name}="…" {string}="true|false">, and </{dsml}…> for the ends.
  std::string calls, invoke, parameter;
  std::string name, string;

  // Before the first message while thinking with that effort.
  std::string high_effort, max_effort;
  // Before the JSON text of a response format.
  std::string response_format_head;
  // Around a tool's result, and around the type of a part of it that is no text.
  std::string tool_result_head, tool_result_tail;
  std::string unsupported_head, unsupported_tail;
  // Around the lines of the tools' schemas.
  std::string tools_head, tools_tail;
};

// The texts and what is composed of them, once. Constant, so any number of threads may share it;
// it outlives whatever it is given to. No copies: it holds views of itself.
struct WireDialect : WireTexts {
  explicit WireDialect(WireTexts texts);
  WireDialect(const WireDialect&) = delete;
  WireDialect& operator=(const WireDialect&) = delete;

  // Every control token, BOS and EOS first.
  const std::vector<std::string_view> control_tokens;
  // Those that may stand neither in content nor in reasoning, and the length of the longest.
  const std::array<std::string_view, 5> forbidden;
  const size_t longest_forbidden;

  // A calls block as it is written: calls_head, invokes, calls_tail. An invoke is invoke_head, its
  // name, `">` and newline, parameters joined by newlines, newline and invoke_tail. A parameter is
  // parameter_head, its name, one of the string marks, its value, parameter_tail.
  const std::string calls_head, calls_tail;
  const std::string invoke_head, invoke_tail;
  const std::string parameter_head, parameter_tail;
  const std::string string_true, string_false;

  // The same as it is looked for. Of each tag only the beginning decides; what must follow it:
  const std::string block_open;       // after a blank line; `>` and newline
  const std::string invoke_open;      // the head of an invoke: white space, name_head, …
  const std::string invoke_close;     // `>` and newline
  const std::string parameter_open;   // parameter_name_head
  const std::string parameter_close;  // `>` and newline
  // parameter_close without its `<`, which ends a value too, though wrongly.
  const std::string bare_parameter_close;
  const std::string name_head, parameter_name_head;
  // Those that a stream waits for whole.
  const std::string block_head, invoke_end, parameter_end;
};

// Of the family DeepSeek-V4: Flash and Pro.
const WireDialect& DeepSeekV4();

// The model types whose dialect is known.
std::vector<std::string> WireDialectNames();

// The dialect of a model whose config.json says `model_type`. An error says which are known and
// what was found.
Result<const WireDialect*> FindWireDialect(std::string_view model_type);

}  // namespace dsv4::chat
