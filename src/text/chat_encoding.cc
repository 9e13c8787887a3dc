#include "text/chat_encoding.h"

#include <algorithm>
#include <utility>

#include "text/chat_messages.h"

namespace dsv4::chat {
namespace {

class Renderer {
 public:
  Renderer(const WireDialect& dialect, const std::vector<Message>& messages,
           const EncodeOptions& options)
      : dialect_(dialect),
        messages_(messages),
        options_(options),
        last_user_(LastUserIndex(messages)) {}

  // A text of the dialect; its control tokens get spans.
  void WriteConstant(std::string_view text);
  Status RenderMessage(size_t index);
  EncodedPrompt Take() { return std::move(prompt_); }

 private:
  Status WritePlain(std::string_view text, std::string_view path);
  Status WriteText(const json::Value* value, const std::string& path);
  Status RenderBody(size_t index);
  Status RenderSystem(const Message& message);
  Status RenderUser(const Message& message);
  Status RenderResult(const Block& block);
  Status RenderAssistant(size_t index);
  Status RenderTools(const Message& message);
  Status RenderCalls(const Message& message);
  Status RenderParameters(const json::Value& arguments, const std::string& path);
  Status RenderParameter(std::string_view name, const json::Value& value, const std::string& path);
  Status RenderTurn(size_t index);

  void WriteToken(std::string_view token);
  void WriteEffort();
  Result<const TaskToken*> TaskOf(const Message& message) const;
  bool HasTask(size_t index) const { return messages_[index].Get("task") != nullptr; }
  bool IsThinking() const { return options_.mode == Mode::kThinking; }

  const WireDialect& dialect_;
  const std::vector<Message>& messages_;
  const EncodeOptions options_;  // drop_thinking as it is in effect
  const ptrdiff_t last_user_;
  EncodedPrompt prompt_;
};

// The array under `key`; null where there is none or it is empty.
Result<const json::Value*> ListOf(const Message& message, std::string_view key) {
  const json::Value* list = message.Get(key);
  if (!IsTruthy(list)) return nullptr;
  if (!list->is_array()) {
    return BadInput("{}.{}: expected an array, found {}", message.path, key,
                    json::KindName(list->kind()));
  }
  return list;
}

Result<const json::Value*> FunctionOf(const json::Value& entry, const std::string& path) {
  const json::Value* function = entry.Find("function");
  if (function == nullptr) {
    return BadInput("{}: expected an object with the member \"function\", found {}", path,
                    entry.is_object() ? "none" : json::KindName(entry.kind()));
  }
  return function;
}

// The tools and calls of a rendered message must be whole, even where its role does not show them.
Status CheckTools(const Message& message) {
  DSV4_ASSIGN(const json::Value* tools, ListOf(message, "tools"));
  for (size_t i = 0; tools != nullptr && i < tools->items().size(); ++i) {
    DSV4_TRY(FunctionOf(tools->items()[i], fmt::format("{}.tools[{}]", message.path, i)));
  }
  DSV4_ASSIGN(const json::Value* calls, ListOf(message, "tool_calls"));
  for (size_t i = 0; calls != nullptr && i < calls->items().size(); ++i) {
    const std::string path = fmt::format("{}.tool_calls[{}]", message.path, i);
    DSV4_ASSIGN(const json::Value* function, FunctionOf(calls->items()[i], path));
    for (const std::string_view key : {"name", "arguments"}) {
      if (function->Find(key) == nullptr) {
        return BadInput("{}.function: expected the member \"{}\", found none", path, key);
      }
    }
  }
  return {};
}

Result<const TaskToken*> Renderer::TaskOf(const Message& message) const {
  const json::Value* task = message.Get("task");
  for (const TaskToken& known : dialect_.tasks) {
    if (task->is_string() && task->as_string() == known.name) return &known;
  }
  std::string names;
  for (size_t i = 0; i < dialect_.tasks.size(); ++i) {
    names += (i == 0 ? "" : i + 1 < dialect_.tasks.size() ? ", " : " or ") + dialect_.tasks[i].name;
  }
  return BadInput("{}.task: expected {}, found {}", message.path, names, json::Dump(*task));
}

void Renderer::WriteToken(std::string_view token) {
  const size_t begin = prompt_.text.size();
  prompt_.text += token;
  prompt_.control_spans.push_back({begin, prompt_.text.size()});
}

void Renderer::WriteConstant(std::string_view text) {
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    for (const std::string_view token : dialect_.control_tokens) {
      if (!text.substr(i).starts_with(token)) continue;
      prompt_.text += text.substr(plain, i - plain);
      WriteToken(token);
      plain = i + token.size();
      i = plain - 1;
      break;
    }
  }
  prompt_.text += text.substr(plain);
}

Status Renderer::WritePlain(std::string_view text, std::string_view path) {
  if (json::HasSurrogate(text)) {
    return BadInput("{}: expected text, found a lone surrogate, which has no UTF-8", path);
  }
  prompt_.text += text;
  return {};
}

// A null is nothing.
Status Renderer::WriteText(const json::Value* value, const std::string& path) {
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_string()) {
    return BadInput("{}: expected a string, found {}", path, json::KindName(value->kind()));
  }
  return WritePlain(value->as_string(), path);
}

void Renderer::WriteEffort() {
  if (options_.effort == Effort::kHigh) WriteConstant(dialect_.high_effort);
  if (options_.effort == Effort::kMax) WriteConstant(dialect_.max_effort);
}

Status Renderer::RenderMessage(size_t index) {
  if (index == 0 && IsThinking()) WriteEffort();
  DSV4_TRY(CheckTools(messages_[index]));
  DSV4_TRY(RenderBody(index));
  DSV4_TRY(RenderTurn(index));
  ++prompt_.num_rendered;
  return {};
}

Status Renderer::RenderBody(size_t index) {
  const Message& message = messages_[index];
  if (message.role == "system") return RenderSystem(message);
  if (message.role == "developer") {
    if (!IsTruthy(message.Get("content"))) {
      return BadInput("{}.content: expected the text of a developer message, found none",
                      message.path);
    }
    WriteConstant(dialect_.user);
    return RenderSystem(message);
  }
  if (message.role == "user") return RenderUser(message);
  if (message.role == "latest_reminder") {
    WriteConstant(dialect_.latest_reminder);
    return WriteText(message.Get("content"), message.path + ".content");
  }
  if (message.role == "assistant") return RenderAssistant(index);
  const json::Value* role = message.source->Find("role");
  return BadInput(
      "{}.role: expected system, user, assistant, tool, latest_reminder or developer, found {}",
      message.path, role == nullptr ? "none" : json::Dump(*role));
}

Status Renderer::RenderSystem(const Message& message) {
  DSV4_TRY(WriteText(message.Get("content"), message.path + ".content"));
  DSV4_TRY(RenderTools(message));
  if (const json::Value* format = message.Get("response_format"); IsTruthy(format)) {
    WriteConstant("\n\n");
    WriteConstant(dialect_.response_format_head);
    prompt_.text += json::Dump(*format);
  }
  return {};
}

Status Renderer::RenderUser(const Message& message) {
  WriteConstant(dialect_.user);
  bool first = true;
  for (const Block& block : message.blocks) {
    if (!std::exchange(first, false)) WriteConstant("\n\n");
    if (block.type == Block::Type::kToolResult) {
      DSV4_TRY(RenderResult(block));
      continue;
    }
    const json::Value* content = block.message->Find("content");
    if (content != nullptr && !content->is_string()) {
      return BadInput("{}.content: expected a string, found {}", block.path,
                      json::KindName(content->kind()));
    }
    DSV4_TRY(WriteText(content, block.path + ".content"));
  }
  return {};
}

Status Renderer::RenderResult(const Block& block) {
  WriteConstant(dialect_.tool_result_head);
  const json::Value* content = block.message->Find("content");
  const std::string path = block.path + ".content";
  if (content == nullptr || !content->is_array()) {
    DSV4_TRY(WriteText(content, path));
    WriteConstant(dialect_.tool_result_tail);
    return {};
  }
  for (size_t i = 0; i < content->items().size(); ++i) {
    const json::Value& part = content->items()[i];
    const std::string part_path = fmt::format("{}[{}]", path, i);
    if (!part.is_object()) {
      return BadInput("{}: expected an object, found {}", part_path, json::KindName(part.kind()));
    }
    if (i > 0) WriteConstant("\n\n");
    const json::Value* type = part.Find("type");
    const bool has_name = type != nullptr && type->is_string();
    if (has_name && type->as_string() == "text") {
      DSV4_TRY(WriteText(part.Find("text"), part_path + ".text"));
      continue;
    }
    // Python prints a missing type as None.
    WriteConstant(dialect_.unsupported_head);
    DSV4_TRY(WritePlain(has_name ? type->as_string() : "None", part_path + ".type"));
    WriteConstant(dialect_.unsupported_tail);
  }
  WriteConstant(dialect_.tool_result_tail);
  return {};
}

Status Renderer::RenderAssistant(size_t index) {
  const Message& message = messages_[index];
  const bool after_task = index > 0 && HasTask(index - 1);
  const bool shows_thinking = !options_.drop_thinking || static_cast<ptrdiff_t>(index) > last_user_;
  if (IsThinking() && !after_task && shows_thinking) {
    DSV4_TRY(WriteText(message.Get("reasoning_content"), message.path + ".reasoning_content"));
    WriteConstant(dialect_.think_end);
  }
  DSV4_TRY(WriteText(message.Get("content"), message.path + ".content"));
  DSV4_TRY(RenderCalls(message));
  if (!IsTruthy(message.Get("wo_eos"))) WriteConstant(dialect_.eos);
  return {};
}

Status Renderer::RenderTools(const Message& message) {
  DSV4_ASSIGN(const json::Value* tools, ListOf(message, "tools"));
  if (tools == nullptr) return {};
  WriteConstant("\n\n");
  WriteConstant(dialect_.tools_head);
  bool first = true;
  for (const json::Value& tool : tools->items()) {
    if (!std::exchange(first, false)) WriteConstant("\n");
    prompt_.text += json::Dump(*tool.Find("function"));
  }
  WriteConstant(dialect_.tools_tail);
  return {};
}

Status Renderer::RenderCalls(const Message& message) {
  DSV4_ASSIGN(const json::Value* calls, ListOf(message, "tool_calls"));
  if (calls == nullptr) return {};
  WriteConstant("\n\n");
  WriteConstant(dialect_.calls_head);
  for (size_t i = 0; i < calls->items().size(); ++i) {
    const std::string path = fmt::format("{}.tool_calls[{}].function", message.path, i);
    const json::Value& function = *calls->items()[i].Find("function");
    const json::Value& name = *function.Find("name");
    if (!name.is_string()) {
      return BadInput("{}.name: expected a string, found {}", path, json::KindName(name.kind()));
    }
    WriteConstant(dialect_.invoke_head);
    DSV4_TRY(WritePlain(name.as_string(), path + ".name"));
    WriteConstant("\">\n");
    DSV4_TRY(RenderParameters(*function.Find("arguments"), path + ".arguments"));
    WriteConstant("\n");
    WriteConstant(dialect_.invoke_tail);
    WriteConstant("\n");
  }
  WriteConstant(dialect_.calls_tail);
  return {};
}

Status Renderer::RenderParameters(const json::Value& arguments, const std::string& path) {
  if (!arguments.is_string()) return RenderParameter("arguments", arguments, path);
  const Result<json::Value> parsed =
      json::Parse(arguments.as_string(), {.allow_surrogate_bytes = true});
  if (!parsed) return RenderParameter("arguments", arguments, path);
  if (!parsed->is_object()) {
    return BadInput("{}: expected the JSON text of an object, found {}", path,
                    json::KindName(parsed->kind()));
  }
  bool first = true;
  for (const auto& [name, value] : parsed->members()) {
    if (!std::exchange(first, false)) WriteConstant("\n");
    DSV4_TRY(RenderParameter(name, value, path));
  }
  return {};
}

Status Renderer::RenderParameter(std::string_view name, const json::Value& value,
                                 const std::string& path) {
  WriteConstant(dialect_.parameter_head);
  DSV4_TRY(WritePlain(name, path));
  WriteConstant(value.is_string() ? dialect_.string_true : dialect_.string_false);
  DSV4_TRY(WritePlain(value.is_string() ? value.as_string() : json::Dump(value), path));
  WriteConstant(dialect_.parameter_tail);
  return {};
}

// What hands the turn to the model, where the message is the last one or its answer follows.
Status Renderer::RenderTurn(size_t index) {
  const Message& message = messages_[index];
  if (index + 1 < messages_.size()) {
    const std::string_view next = messages_[index + 1].role;
    if (next != "assistant" && next != "latest_reminder") return {};
  }
  if (HasTask(index)) {
    DSV4_ASSIGN(const TaskToken* const task, TaskOf(message));
    if (task->opens_turn) {
      WriteConstant(dialect_.assistant);
      WriteConstant(IsThinking() ? dialect_.think_start : dialect_.think_end);
    }
    WriteToken(task->token);
    return {};
  }
  if (message.role != "user" && message.role != "developer") return {};
  const bool opens_thinking =
      IsThinking() && (!options_.drop_thinking || static_cast<ptrdiff_t>(index) >= last_user_);
  WriteConstant(dialect_.assistant);
  WriteConstant(opens_thinking ? dialect_.think_start : dialect_.think_end);
  return {};
}

bool HasTools(const std::vector<Message>& messages) {
  return std::any_of(messages.begin(), messages.end(),
                     [](const Message& message) { return IsTruthy(message.Get("tools")); });
}

}  // namespace

std::optional<Effort> EffortFromName(std::string_view name) {
  if (name == "none") return Effort::kNone;
  if (name == "high") return Effort::kHigh;
  if (name == "max") return Effort::kMax;
  return std::nullopt;
}

Result<EncodedPrompt> Encode(const WireDialect& dialect, const json::Value& messages,
                             const json::Value* context, const EncodeOptions& options) {
  DSV4_ASSIGN(std::vector<Message> tail, MergeMessages(messages, "messages"));
  SortToolResults(tail, context);
  std::vector<Message> before;
  if (context != nullptr && !context->is_null()) {
    DSV4_ASSIGN(before, MergeMessages(*context, "context"));
    SortToolResults(before, nullptr);
  }
  auto num_to_render = std::ssize(tail);
  EncodeOptions effective = options;
  effective.drop_thinking = options.drop_thinking && !HasTools(before) && !HasTools(tail);
  std::vector<Message> all = before;
  all.insert(all.end(), std::make_move_iterator(tail.begin()), std::make_move_iterator(tail.end()));
  if (options.mode == Mode::kThinking && effective.drop_thinking) {
    all = DropThinking(std::move(all));
    num_to_render = std::ssize(all) - std::ssize(DropThinking(before));
  }
  Renderer renderer(dialect, all, effective);
  if (options.add_bos && before.empty()) renderer.WriteConstant(dialect.bos);
  for (ptrdiff_t i = std::ssize(all) - std::max<ptrdiff_t>(num_to_render, 0); i < std::ssize(all);
       ++i) {
    DSV4_TRY(renderer.RenderMessage(static_cast<size_t>(i)));
  }
  return renderer.Take();
}

size_t StablePrefixBytes(const EncodedPrompt& a, const EncodedPrompt& b) {
  const size_t length = std::min(a.text.size(), b.text.size());
  const auto common = static_cast<size_t>(
      std::mismatch(a.text.begin(), a.text.begin() + static_cast<ptrdiff_t>(length), b.text.begin())
          .first -
      a.text.begin());
  size_t stable = 0;
  for (size_t i = 0; i < a.control_spans.size() && i < b.control_spans.size(); ++i) {
    if (a.control_spans[i] != b.control_spans[i] || a.control_spans[i].end > common) break;
    stable = a.control_spans[i].end;
  }
  return stable;
}

}  // namespace dsv4::chat
