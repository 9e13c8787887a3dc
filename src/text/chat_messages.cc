#include "text/chat_messages.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace dsv4::chat {
namespace {

std::string_view TextOf(const json::Value* value) {
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

// The calls of the nearest assistant message that had some: the id of each, and its place.
class CallOrder {
 public:
  void See(std::string_view role, const json::Value* tool_calls) {
    if (role != "assistant" || !IsTruthy(tool_calls) || !tool_calls->is_array()) return;
    places_.clear();
    for (size_t i = 0; i < tool_calls->items().size(); ++i) {
      const json::Value& call = tool_calls->items()[i];
      std::string_view id = TextOf(call.Find("id"));
      if (const json::Value* function = call.Find("function"); id.empty() && function != nullptr) {
        id = TextOf(function->Find("id"));
      }
      if (!id.empty()) places_[id] = i;
    }
  }

  bool empty() const { return places_.empty(); }

  size_t PlaceOf(std::string_view id) const {
    const auto found = places_.find(id);
    return found == places_.end() ? 0 : found->second;
  }

 private:
  std::unordered_map<std::string_view, size_t> places_;
};

void SortResults(std::vector<Block>& blocks, const CallOrder& order) {
  if (order.empty()) return;
  // (rank, place) pairs sort stably whatever the algorithm.
  std::vector<std::pair<size_t, size_t>> ranks;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].type == Block::Type::kToolResult) {
      ranks.emplace_back(order.PlaceOf(blocks[i].tool_use_id), i);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  std::vector<Block> results;
  for (const auto& [rank, place] : ranks) results.push_back(std::move(blocks[place]));
  size_t next = 0;
  for (Block& block : blocks) {
    if (block.type == Block::Type::kToolResult) block = std::move(results[next++]);
  }
}

}  // namespace

bool IsTruthy(const json::Value* value) {
  if (value == nullptr) return false;
  switch (value->kind()) {
    case json::Kind::kNull:
      return false;
    case json::Kind::kBool:
      return value->as_bool();
    case json::Kind::kNumber:
      return value->to_double() != 0.0;
    case json::Kind::kString:
      return !value->as_string().empty();
    case json::Kind::kArray:
      return !value->items().empty();
    case json::Kind::kObject:
      return !value->members().empty();
  }
  return false;
}

const json::Value* Message::Get(std::string_view key) const {
  if (!blocks.empty()) {
    constexpr std::array<std::string_view, 3> kCarriedOver = {"task", "wo_eos", "mask"};
    if (blocks.front().type == Block::Type::kToolResult) return nullptr;
    if (std::find(kCarriedOver.begin(), kCarriedOver.end(), key) == kCarriedOver.end()) {
      return nullptr;
    }
  }
  if (without_reasoning && key == "reasoning_content") return nullptr;
  const json::Value* value = source->Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::vector<Message>> MergeMessages(const json::Value& list, std::string_view name) {
  if (!list.is_array()) {
    return BadInput("{}: expected an array of messages, found {}", name,
                    json::KindName(list.kind()));
  }
  std::vector<Message> merged;
  for (size_t i = 0; i < list.items().size(); ++i) {
    const json::Value& source = list.items()[i];
    std::string path = fmt::format("{}[{}]", name, i);
    if (!source.is_object()) {
      return BadInput("{}: expected an object, found {}", path, json::KindName(source.kind()));
    }
    const std::string_view role = TextOf(source.Find("role"));
    if (role != "user" && role != "tool") {
      merged.push_back({&source, std::move(path), role});
      continue;
    }
    const bool is_result = role == "tool";
    Block block{is_result ? Block::Type::kToolResult : Block::Type::kText, &source,
                is_result ? TextOf(source.Find("tool_call_id")) : std::string_view(), path};
    const bool joins = !merged.empty() && merged.back().role == "user" &&
                       (is_result || merged.back().Get("task") == nullptr);
    if (!joins) merged.push_back({&source, std::move(path), "user"});
    merged.back().blocks.push_back(std::move(block));
  }
  return merged;
}

void SortToolResults(std::vector<Message>& messages, const json::Value* preceding) {
  CallOrder order;
  if (preceding != nullptr && preceding->is_array()) {
    for (const json::Value& message : preceding->items()) {
      order.See(TextOf(message.Find("role")), message.Find("tool_calls"));
    }
  }
  for (Message& message : messages) {
    order.See(message.role, message.Get("tool_calls"));
    SortResults(message.blocks, order);
  }
}

ptrdiff_t LastUserIndex(const std::vector<Message>& messages) {
  for (auto i = std::ssize(messages) - 1; i >= 0; --i) {
    const std::string_view role = messages[static_cast<size_t>(i)].role;
    if (role == "user" || role == "developer") return i;
  }
  return -1;
}

std::vector<Message> DropThinking(std::vector<Message> messages) {
  constexpr std::array<std::string_view, 4> kKept = {"user", "system", "latest_reminder",
                                                     "direct_search_results"};
  const ptrdiff_t last = LastUserIndex(messages);
  std::vector<Message> kept;
  for (ptrdiff_t i = 0; i < std::ssize(messages); ++i) {
    Message& message = messages[static_cast<size_t>(i)];
    if (i < last && message.role == "assistant") {
      message.without_reasoning = true;
    } else if (i < last && std::find(kKept.begin(), kKept.end(), message.role) == kKept.end()) {
      continue;
    }
    kept.push_back(std::move(message));
  }
  return kept;
}

}  // namespace dsv4::chat
