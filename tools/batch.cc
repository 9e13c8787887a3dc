#include "tools/batch.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

namespace dsv4::tools {
namespace {

json::Value AnswerLine(std::string_view text, const BatchAnswer& answer) {
  const Result<json::Value> line = json::Parse(text);
  Result<json::Value> answered = json::Value();
  if (!line) {
    answered = Within("line", line.error());
  } else if (!line->is_object()) {
    answered = BadInput("line: expected an object, found {}", KindName(line->kind()));
  } else {
    answered = answer(*line);
  }
  const json::Value* id = line ? line->Find("id") : nullptr;
  json::Value out = json::Value::MakeObject();
  out.Set("id", id == nullptr ? json::Value() : *id);
  if (!answered) {
    out.Set("error", json::Value::String(answered.error().message));
    return out;
  }
  for (const auto& [key, value] : answered->members()) out.Set(key, value);
  return out;
}

}  // namespace

Status RunBatch(const BatchAnswer& answer) {
  std::ios::sync_with_stdio(false);
  for (std::string text; std::getline(std::cin, text);) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string out = json::DumpCompact(AnswerLine(text, answer)) + '\n';
    if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size() ||
        (std::cin.rdbuf()->in_avail() <= 0 && std::fflush(stdout) != 0)) {
      return Failed("standard output cannot be written");
    }
  }
  if (std::cin.bad()) return Failed("standard input cannot be read");
  return {};
}

Status CheckMembers(const json::Value& object, std::initializer_list<std::string_view> taken,
                    std::initializer_list<std::string_view> passed_over) {
  for (const auto& [key, value] : object.members()) {
    if (std::ranges::find(taken, key) == taken.end() &&
        std::ranges::find(passed_over, key) == passed_over.end()) {
      return BadInput("{}: no such member; known are {}", key, fmt::join(taken, ", "));
    }
  }
  return {};
}

Result<std::string> BatchString(const json::Value& line, std::string_view key) {
  const json::Value* value = line.Find(key);
  if (value != nullptr && value->is_string()) return value->as_string();
  return BadInput("{}: expected a string, found {}", key,
                  value == nullptr ? "nothing" : KindName(value->kind()));
}

}  // namespace dsv4::tools
