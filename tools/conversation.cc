#include "tools/conversation.h"

#include <utility>

#include "base/read_file.h"
#include "platform/output_file.h"

namespace dsv4::tools {
namespace {

json::Value Message(std::string role, std::string content) {
  return json::Value::MakeObject({{"role", json::Value::String(std::move(role))},
                                  {"content", json::Value::String(std::move(content))}});
}

bool BeginsWithSystem(const std::vector<json::Value>& messages) {
  if (messages.empty()) return false;
  const json::Value* role = messages.front().Find("role");
  return role != nullptr && role->is_string() && role->as_string() == "system";
}

}  // namespace

bool Conversation::has_system() const { return BeginsWithSystem(messages_); }

void Conversation::SetSystem(std::string text) {
  if (has_system()) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), Message("system", std::move(text)));
}

void Conversation::Clear() { messages_.resize(has_system() ? 1 : 0); }

void Conversation::AddUser(std::string text) {
  messages_.push_back(Message("user", std::move(text)));
}

void Conversation::AddAssistant(const chat::ParsedMessage& message) {
  json::Value value = Message("assistant", message.content);
  if (!message.reasoning_content.empty()) {
    value.Set("reasoning_content", json::Value::String(message.reasoning_content));
  }
  if (!message.tool_calls.empty()) value.Set("tool_calls", *message.ToJson().Find("tool_calls"));
  messages_.push_back(std::move(value));
}

void Conversation::TakeBackUser() { messages_.pop_back(); }

Status Conversation::Save(const std::filesystem::path& path) const {
  DSV4_ASSIGN(OutputFile file, OutputFile::Create(path));
  DSV4_TRY(file.Write(json::Dump(ToJson()) + "\n"));
  return file.Commit();
}

Status Conversation::Load(const std::filesystem::path& path, const chat::WireDialect& dialect) {
  DSV4_ASSIGN(const std::string text, ReadFile(path));
  auto messages = json::Parse(text);
  if (!messages) return Within(path.string(), std::move(messages).error());
  if (!messages->is_array()) {
    return BadInput("{}: expected an array of messages, found {}", path.string(),
                    json::KindName(messages->kind()));
  }
  for (const chat::Mode mode : {chat::Mode::kChat, chat::Mode::kThinking}) {
    auto encoded = chat::Encode(dialect, *messages, nullptr, {.mode = mode});
    if (!encoded) return Within(path.string(), std::move(encoded).error());
  }
  std::vector<json::Value> before = std::move(messages_);
  messages_ = messages->items();
  if (!has_system() && BeginsWithSystem(before))
    messages_.insert(messages_.begin(), before.front());
  return {};
}

void AnswerBuilder::Add(const service::GenerationEvent& event) {
  using Kind = service::GenerationEvent::Kind;
  if (event.kind == Kind::kReasoning) message_.reasoning_content += event.text;
  if (event.kind == Kind::kContent) message_.content += event.text;
  if (event.kind == Kind::kCallStart) message_.tool_calls.push_back({event.text, ""});
  if (event.kind == Kind::kArguments) message_.tool_calls.back().arguments += event.text;
}

}  // namespace dsv4::tools
