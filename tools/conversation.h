// The messages of a chat.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "service/generation.h"
#include "text/completion_parser.h"

namespace dsv4::tools {

class Conversation {
 public:
  size_t size() const { return messages_.size(); }
  // The messages, for chat::Encode.
  json::Value ToJson() const { return json::Value::MakeArray(messages_); }

  bool has_system() const;
  // What the model is told first; empty: nothing.
  void SetSystem(std::string text);
  void Clear();  // all but the system text

  void AddUser(std::string text);
  void AddAssistant(const chat::ParsedMessage& message);
  // Takes back the last user's message, which was not answered.
  void TakeBackUser();

  Status Save(const std::filesystem::path& path) const;
  // Replaces all of it, but for the system text where the file has none. The file must hold
  // messages that can be encoded in the dialect.
  Status Load(const std::filesystem::path& path, const chat::WireDialect& dialect);

 private:
  std::vector<json::Value> messages_;
};

// Collects an answer's events into its message.
class AnswerBuilder {
 public:
  void Add(const service::GenerationEvent& event);
  const chat::ParsedMessage& message() const { return message_; }
  bool empty() const { return message_ == chat::ParsedMessage{}; }

 private:
  chat::ParsedMessage message_;
};

}  // namespace dsv4::tools
