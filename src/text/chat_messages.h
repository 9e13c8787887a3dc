// What happens to a list of messages before it is rendered: tool results and runs of user messages
// are merged, results are put in the order of their calls, old thinking is dropped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace dsv4::chat {

// A part of a merged user message.
struct Block {
  enum class Type { kText, kToolResult };
  Type type;
  const json::Value* message;    // the user or tool message it came from
  std::string_view tool_use_id;  // of a result; empty where unknown
  std::string path;              // of `message`: "messages[3]"
};

// A message as it is rendered; points into the caller's list.
struct Message {
  const json::Value* source;
  std::string path;                // of `source`
  std::string_view role;           // "user" for merged tool messages; empty where `source` has none
  std::vector<Block> blocks = {};  // of a user message, at least one
  bool without_reasoning = false;

  // The member, or null where it is missing, null, or lost in merging or dropping.
  const json::Value* Get(std::string_view key) const;
};

// Whether Python takes the value for true: not null, false, zero or empty.
bool IsTruthy(const json::Value* value);

// `list` must be an array of objects; `name` begins the paths: "messages", "context".
Result<std::vector<Message>> MergeMessages(const json::Value& list, std::string_view name);

// Puts the results of each user message in the order of the calls they answer, as if `preceding`
// (null for none; an unmerged list) stood before.
void SortToolResults(std::vector<Message>& messages, const json::Value* preceding);

// Position of the last user or developer message; -1 where there is none.
ptrdiff_t LastUserIndex(const std::vector<Message>& messages);

// Before the last user or developer message, assistants lose their reasoning and developers and
// unknown roles are left out.
std::vector<Message> DropThinking(std::vector<Message> messages);

}  // namespace dsv4::chat
