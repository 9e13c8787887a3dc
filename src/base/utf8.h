// UTF-8 as WHATWG, Rust and Python read it: each maximal invalid subpart counts as one U+FFFD.
// (F0 9F 98 is one, E0 80 80 three, ED A0 80 three, C0 80 two, F4 90 80 80 four.)
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dsv4::utf8 {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

struct Decoded {
  char32_t code_point;     // kReplacement where invalid
  int length;              // bytes taken: the character, or the maximal invalid subpart; at least 1
  bool valid;              // a whole character
  bool truncated = false;  // invalid only because the text ends: a valid prefix of some character
};

// The character or invalid subpart that begins at `offset`, which must be inside `text`.
Decoded DecodeAt(std::string_view text, size_t offset);

bool IsValid(std::string_view text);

// `text` with each maximal invalid subpart replaced by U+FFFD.
std::string Sanitize(std::string_view text);

// Appends the UTF-8 form of `code_point` (at most 10FFFF; a surrogate gets its three-byte form).
void Append(std::string& out, char32_t code_point);

// Sanitize over bytes that come in pieces: what the calls return, joined, is Sanitize of all bytes
// joined, and each part is whole characters. Nothing that is decided is held back.
class Stream {
 public:
  // The characters that are complete, and U+FFFD for what can no longer become one. Holds back only
  // a valid prefix of a character, at most 3 bytes.
  std::string Push(std::string_view bytes);
  // What was held back, as U+FFFD; then begins anew.
  std::string Flush();

 private:
  std::string held_;
};

}  // namespace dsv4::utf8
