// Tokens to text as they come: whole characters only, and not one byte lost.
#pragma once

#include <cstdint>
#include <string>

#include "base/utf8.h"
#include "text/tokenizer.h"

namespace dsv4 {

// All that Push and Flush return, joined, is Tokenizer::Decode of all the ids. A token may hold
// part of a character: its bytes wait (at most 3) until the rest comes or can no longer come.
class Detokenizer {
 public:
  // The tokenizer must outlive this.
  Detokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  std::string Push(int32_t id);
  // At the end, at a stop too: what still waits, as U+FFFD. Then ready for another text.
  std::string Flush() { return stream_.Flush(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  utf8::Stream stream_;
};

}  // namespace dsv4
