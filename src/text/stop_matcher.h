// Finds stop strings in text that comes in pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dsv4 {

// Which stop counts: the one whose end comes first; of those that end together the longest; of
// equal strings the first. So the answer does not depend on how the text is split into pieces, and
// is known as soon as the stop's last byte is there. Linear in text and stops (Aho and Corasick's
// automaton).
class StopMatcher {
 public:
  struct Output {
    std::string text;  // can no longer be part of a stop; ends before the stop that matched
    std::optional<size_t> stop;  // index of the stop that matched
  };

  // Empty strings among the stops never match. Without stops all text passes at once.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // Holds back only the longest end of the text that begins some stop. After a match nothing comes.
  Output Push(std::string_view piece);
  // At the end of the text: what was held back. Then ready for another text.
  std::string Flush();

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // A prefix of some stop. Children are a list, linked by `sibling`.
  struct Node {
    char byte = 0;
    uint32_t depth = 0;
    uint32_t child = kNone;
    uint32_t sibling = kNone;
    uint32_t shorter = 0;   // the longest proper end of this prefix that is a prefix too
    uint32_t stop = kNone;  // the longest stop that this prefix ends with
    uint32_t stop_bytes = 0;
  };

  void Insert(std::string_view stop, uint32_t index);
  void Link();
  uint32_t ChildOf(uint32_t node, char byte) const;
  uint32_t Advance(uint32_t node, char byte) const;

  std::vector<Node> nodes_ = {Node{}};  // the root, the empty prefix, first
  uint32_t state_ = 0;
  bool matched_ = false;
  std::string text_;  // its bytes from begin_ on are held back: as many as the state is deep
  size_t begin_ = 0;
};

}  // namespace dsv4
