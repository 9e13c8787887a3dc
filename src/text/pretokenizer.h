// Cuts text into the pieces inside which byte pairs are merged: DeepSeek-V4's three Split patterns
// in sequence (all Isolated: matches become pieces, so does each stretch between two matches), each
// run on every piece of the one before:
//   1. \p{N}{1,3}
//   2. [一-龥぀-ゟ゠-ヿ]+
//   3. [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//      | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// A scanner over a table (unicode_classes.h), not a regex engine: the classes must be
// Unicode 16.0's and \s exactly the 25 white-space code points, which the engines at hand do not
// give.
#pragma once

#include <string_view>

namespace dsv4 {

// The patterns as tokenizer.json holds them, JSON escapes removed.
extern const std::string_view kSplitPatterns[3];

// Walks over the pieces of one text in order; linear in its length.
class Pretokenizer {
 public:
  // `text` must be valid UTF-8 and outlive the pieces. Its ends are text edges for the look-ahead.
  explicit Pretokenizer(std::string_view text)
      : position_(text.data()), end_(text.data() + text.size()) {}

  // The next piece, never empty; an empty view at the end.
  std::string_view Next();

 private:
  const char* position_;
  const char* const end_;
};

}  // namespace dsv4
