#include "text/completion_parser.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"
#include "text/completion_grammar.h"

namespace dsv4::chat {
namespace {

class StrictParser {
 public:
  StrictParser(const WireDialect& dialect, std::string_view text)
      : dialect_(dialect), text_(text) {}

  Result<ParsedMessage> Run(Mode mode);

 private:
  // The earlier of two markers at or after the current place; npos where neither comes.
  struct Next {
    size_t at;
    bool is_first;
  };
  Next Find(std::string_view first, std::string_view second) const;
  std::unexpected<Error> Expected(std::string_view what, size_t at) const;
  bool Accept(std::string_view literal);
  Status CheckPlain(std::string_view part, std::string_view text) const;
  Status ParseBlock(ParsedMessage& message);
  Result<ToolCall> ParseInvoke();
  Status ParseParameter(std::string& arguments, std::unordered_set<std::string_view>& names);

  const WireDialect& dialect_;
  const std::string_view text_;
  size_t at_ = 0;
};

std::unexpected<Error> StrictParser::Expected(std::string_view what, size_t at) const {
  if (at >= text_.size()) return BadInput("byte {}: expected {}, found the end", at, what);
  constexpr size_t kShownBytes = 40;
  std::string_view shown = text_.substr(at, kShownBytes);
  while (!utf8::IsValid(shown)) shown.remove_suffix(1);
  return BadInput("byte {}: expected {}, found {}", at, what, json::Quote(shown));
}

StrictParser::Next StrictParser::Find(std::string_view first, std::string_view second) const {
  const std::array<std::string_view, 2> markers = {first, second};
  const Scan scan = ScanFor(markers, text_.substr(at_));
  if (scan.marker == nullptr) return {std::string_view::npos, true};
  return {at_ + scan.text_end, scan.marker == &markers[0]};
}

bool StrictParser::Accept(std::string_view literal) {
  if (!text_.substr(at_).starts_with(literal)) return false;
  at_ += literal.size();
  return true;
}

// `part` lies inside the completion.
Status StrictParser::CheckPlain(std::string_view part, std::string_view name) const {
  for (const std::string_view token : dialect_.forbidden) {
    if (const size_t found = part.find(token); found != std::string_view::npos) {
      return BadInput("byte {}: expected no control token in the {}, found {}",
                      static_cast<size_t>(part.data() - text_.data()) + found, name, token);
    }
  }
  return {};
}

Result<ParsedMessage> StrictParser::Run(Mode mode) {
  if (!utf8::IsValid(text_)) {
    size_t bad = 0;
    while (utf8::DecodeAt(text_, bad).valid) {
      bad += static_cast<size_t>(utf8::DecodeAt(text_, bad).length);
    }
    return BadInput("byte {}: expected UTF-8, found byte 0x{:02X}", bad,
                    static_cast<uint8_t>(text_[bad]));
  }
  ParsedMessage message;
  if (mode == Mode::kThinking) {
    const Next end = Find(dialect_.think_end, dialect_.block_open);
    if (end.at == std::string_view::npos || !end.is_first) {
      return Expected(fmt::format("{} before the content", dialect_.think_end),
                      std::min(end.at, text_.size()));
    }
    const std::string_view reasoning = text_.substr(0, end.at);
    DSV4_TRY(CheckPlain(reasoning, "reasoning"));
    message.reasoning_content = reasoning;
    at_ = end.at + dialect_.think_end.size();
  }
  const Next end = Find(dialect_.eos, dialect_.block_open);
  if (end.at == std::string_view::npos) {
    return Expected(fmt::format("{} after the content", dialect_.eos), text_.size());
  }
  const std::string_view content = text_.substr(at_, end.at - at_);
  DSV4_TRY(CheckPlain(content, "content"));
  message.content = content;
  at_ = end.at;
  if (!end.is_first) DSV4_TRY(ParseBlock(message));
  // A block may end the text by itself.
  if (!Accept(dialect_.eos) && at_ != text_.size()) return Expected(dialect_.eos, at_);
  if (at_ != text_.size()) return Expected(fmt::format("the end after {}", dialect_.eos), at_);
  return message;
}

Status StrictParser::ParseBlock(ParsedMessage& message) {
  at_ += dialect_.block_open.size();
  for (;;) {
    if (!Accept(kItemEnd)) return Expected("'>' and a newline", at_);
    if (Accept(dialect_.calls_tail)) return {};
    if (!Accept(dialect_.invoke_open))
      return Expected(fmt::format("{} or {}", dialect_.invoke_open, dialect_.calls_tail), at_);
    DSV4_ASSIGN(ToolCall call, ParseInvoke());
    message.tool_calls.push_back(std::move(call));
  }
}

Result<ToolCall> StrictParser::ParseInvoke() {
  const Next end = Find(dialect_.parameter_open, dialect_.invoke_close);
  if (end.at == std::string_view::npos) {
    return Expected(fmt::format("{} or {}", dialect_.parameter_open, dialect_.invoke_close),
                    text_.size());
  }
  const auto name = InvokeNameOf(dialect_, text_.substr(at_, end.at - at_), end.is_first);
  if (!name)
    return Expected(fmt::format("the head of an invoke, {}…\"> and a newline", dialect_.name_head),
                    at_);
  at_ = end.at;
  std::string arguments = "{";
  std::unordered_set<std::string_view> names;
  while (Accept(dialect_.parameter_open)) DSV4_TRY(ParseParameter(arguments, names));
  if (!Accept(dialect_.invoke_close)) {
    return Expected(fmt::format("{} or {}", dialect_.parameter_open, dialect_.invoke_close), at_);
  }
  return ToolCall{std::string(*name), arguments + '}'};
}

Status StrictParser::ParseParameter(std::string& arguments,
                                    std::unordered_set<std::string_view>& names) {
  const size_t close = text_.find(dialect_.bare_parameter_close, at_);
  if (close == std::string_view::npos) return Expected(dialect_.parameter_tail, text_.size());
  const std::string_view parameter = text_.substr(at_, close - at_);
  if (!parameter.starts_with(dialect_.parameter_name_head))
    return Expected(fmt::format("'{}'", dialect_.parameter_name_head), at_);
  const size_t string_mark =
      parameter.find(dialect_.string_true, dialect_.parameter_name_head.size());
  const size_t other_mark = parameter.substr(0, string_mark)
                                .find(dialect_.string_false, dialect_.parameter_name_head.size());
  const bool is_string = other_mark == std::string_view::npos;
  const size_t mark = is_string ? string_mark : other_mark;
  if (mark == std::string_view::npos) {
    return Expected(
        fmt::format("a parameter's name and {0}=\"true\"> or {0}=\"false\">", dialect_.string),
        at_);
  }
  const size_t begin = mark + (is_string ? dialect_.string_true : dialect_.string_false).size();
  if (!parameter.ends_with('<') || begin == parameter.size()) return Expected("'<'", close);
  const std::string_view name = parameter.substr(dialect_.parameter_name_head.size(),
                                                 mark - dialect_.parameter_name_head.size());
  const std::string_view value = parameter.substr(begin, parameter.size() - 1 - begin);
  if (!names.insert(name).second) {
    return BadInput("byte {}: expected each parameter once, found a second {}",
                    at_ + dialect_.parameter_name_head.size(), json::Quote(name));
  }
  arguments += fmt::format("{}{}: {}", names.size() > 1 ? ", " : "", json::Quote(name),
                           is_string ? json::Quote(value) : value);
  at_ = close + dialect_.bare_parameter_close.size();
  if (!Accept(kItemEnd)) return Expected("'>' and a newline", at_);
  return {};
}

}  // namespace

json::Value ParsedMessage::ToJson() const {
  using json::Value;
  Value calls = Value::MakeArray();
  for (const ToolCall& call : tool_calls) {
    calls.Append(Value::MakeObject(
        {{"type", Value::String("function")},
         {"function", Value::MakeObject({{"name", Value::String(call.name)},
                                         {"arguments", Value::String(call.arguments)}})}}));
  }
  return Value::MakeObject({{"role", Value::String("assistant")},
                            {"content", Value::String(content)},
                            {"reasoning_content", Value::String(reasoning_content)},
                            {"tool_calls", std::move(calls)}});
}

Result<ParsedMessage> ParseCompletion(const WireDialect& dialect, std::string_view text,
                                      Mode mode) {
  return StrictParser(dialect, text).Run(mode);
}

}  // namespace dsv4::chat
