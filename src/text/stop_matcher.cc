#include "text/stop_matcher.h"

#include "base/check.h"

namespace dsv4 {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (!stops[i].empty()) Insert(stops[i], static_cast<uint32_t>(i));
  }
  Link();
}

void StopMatcher::Insert(std::string_view stop, uint32_t index) {
  uint32_t at = 0;
  for (const char byte : stop) {
    uint32_t next = ChildOf(at, byte);
    if (next == kNone) {
      DSV4_CHECK(nodes_.size() < kNone, "stops of 4 GiB");
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back({.byte = byte, .depth = nodes_[at].depth + 1, .sibling = nodes_[at].child});
      nodes_[at].child = next;
    }
    at = next;
  }
  if (nodes_[at].stop != kNone) return;
  nodes_[at].stop = index;
  nodes_[at].stop_bytes = nodes_[at].depth;
}

// Breadth first, so that every shorter prefix is done before a longer one asks for it.
void StopMatcher::Link() {
  std::vector<uint32_t> queue = {0};
  for (size_t done = 0; done < queue.size(); ++done) {
    const uint32_t parent = queue[done];
    for (uint32_t at = nodes_[parent].child; at != kNone; at = nodes_[at].sibling) {
      Node& node = nodes_[at];
      if (parent != 0) node.shorter = Advance(nodes_[parent].shorter, node.byte);
      if (node.stop == kNone) {
        node.stop = nodes_[node.shorter].stop;
        node.stop_bytes = nodes_[node.shorter].stop_bytes;
      }
      queue.push_back(at);
    }
  }
}

uint32_t StopMatcher::ChildOf(uint32_t node, char byte) const {
  uint32_t child = nodes_[node].child;
  while (child != kNone && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

uint32_t StopMatcher::Advance(uint32_t node, char byte) const {
  for (;; node = nodes_[node].shorter) {
    if (const uint32_t child = ChildOf(node, byte); child != kNone) return child;
    if (node == 0) return 0;
  }
}

StopMatcher::Output StopMatcher::Push(std::string_view piece) {
  if (matched_) return {};
  const size_t piece_begin = text_.size();
  text_ += piece;
  for (size_t i = 0; i < piece.size(); ++i) {
    state_ = Advance(state_, piece[i]);
    const Node& node = nodes_[state_];
    if (node.stop == kNone) continue;
    matched_ = true;
    const size_t stop_begin = piece_begin + i + 1 - node.stop_bytes;
    return {text_.substr(begin_, stop_begin - begin_), node.stop};
  }
  const size_t sure = text_.size() - nodes_[state_].depth;
  Output output{text_.substr(begin_, sure - begin_), std::nullopt};
  begin_ = sure;
  // Only now and then, so that a long held end is not moved for every piece.
  if (begin_ > text_.size() / 2) {
    text_.erase(0, begin_);
    begin_ = 0;
  }
  return output;
}

std::string StopMatcher::Flush() {
  std::string rest = matched_ ? std::string() : text_.substr(begin_);
  text_.clear();
  begin_ = 0;
  state_ = 0;
  matched_ = false;
  return rest;
}

}  // namespace dsv4
