// What a Tokenizer is made of; between tokenizer_load.cc, which fills it, and tokenizer.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/byte_pairs.h"
#include "text/tokenizer.h"

namespace dsv4 {

enum TokenFlags : uint8_t { kTokenAdded = 1, kTokenSpecial = 2 };

struct Tokenizer::Tables {
  std::string bytes;              // of all tokens, in id order
  std::vector<uint32_t> offsets;  // [vocab_size + 1] into bytes
  std::vector<uint8_t> flags;     // [vocab_size] TokenFlags
  BytePairs pairs;
  // Those with `normalized` false are looked for first, the others in what is left.
  AddedTokens added_first;
  AddedTokens added_then;
};

}  // namespace dsv4
