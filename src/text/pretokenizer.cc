#include "text/pretokenizer.h"

#include <cstddef>

#include "text/unicode_classes.h"

namespace dsv4 {

const std::string_view kSplitPatterns[3] = {
    R"(\p{N}{1,3})",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

namespace {

// What a run's edge, the text's end included, looks like to a scanner inside the run.
constexpr uint8_t kEdge = 8;

// One character of valid UTF-8.
struct Char {
  uint8_t char_class;
  uint8_t length;
};

Char CharAt(const char* p) {
  const auto byte = [p](int i) { return static_cast<uint8_t>(p[i]); };
  const auto tail = [&](int i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  if (byte(0) < 0x80) return {CharClassOf(byte(0)), 1};
  if (byte(0) < 0xE0) return {CharClassOf((byte(0) & 0x1Fu) << 6 | tail(1)), 2};
  if (byte(0) < 0xF0) return {CharClassOf((byte(0) & 0xFu) << 12 | tail(1) << 6 | tail(2)), 3};
  return {CharClassOf((byte(0) & 7u) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3)), 4};
}

bool IsAsciiLetter(char c) {
  const auto lower = static_cast<uint8_t>(c | 0x20);
  return lower >= 'a' && lower <= 'z';
}

// The third pattern inside one run: a maximal stretch of East Asian characters, or of those that
// are neither East Asian nor numbers. The run's end is found on the way: a character of another run
// has a class of kEdge or above here.
class RunScanner {
 public:
  RunScanner(const char* end, uint8_t run_class) : end_(end), flip_(run_class & kEastAsian) {}

  Char At(const char* p) const {
    if (p == end_) return {kEdge, 0};
    const Char c = CharAt(p);
    return {static_cast<uint8_t>(c.char_class ^ flip_), c.length};
  }

  // The end of the match that begins at p, or p where none does.
  const char* Match(const char* p) const {
    const Char c = At(p);
    const char* const next = p + c.length;
    if (c.char_class == kCharWord) return Skip(kCharWord, next);
    if (c.char_class == kCharSign && c.length == 1 && next != end_ && IsAsciiLetter(*next)) {
      const char* q = next + 1;
      while (q != end_ && IsAsciiLetter(*q)) ++q;
      return q;
    }
    if (c.char_class == kCharSign) return Signs(next);
    const uint8_t following = At(next).char_class;
    if (following == kCharWord && c.char_class != kCharNewline) return Skip(kCharWord, next);
    if (following == kCharSign && *p == ' ') return Signs(next);
    if (c.char_class == kCharSpace || c.char_class == kCharNewline) return Space(p);
    return p;
  }

 private:
  const char* Skip(uint8_t char_class, const char* p) const {
    for (Char c = At(p); c.char_class == char_class; c = At(p)) p += c.length;
    return p;
  }

  const char* Signs(const char* p) const { return Skip(kCharNewline, Skip(kCharSign, p)); }

  // White space: up to its last line end; else all of it at the run's end; else all but its last
  // character, where that leaves any.
  const char* Space(const char* begin) const {
    const char* after_newline = nullptr;
    const char* last = begin;
    const char* p = begin;
    Char c = At(p);
    for (; c.char_class == kCharSpace || c.char_class == kCharNewline; c = At(p)) {
      last = p;
      p += c.length;
      if (c.char_class == kCharNewline) after_newline = p;
    }
    if (after_newline != nullptr) return after_newline;
    return c.char_class >= kEdge || last == begin ? p : last;
  }

  const char* const end_;
  const uint8_t flip_;  // turns the classes of the run's own characters into those below kEdge
};

}  // namespace

std::string_view Pretokenizer::Next() {
  const char* const begin = position_;
  if (begin == end_) return {};
  const uint8_t first_class = CharAt(begin).char_class;
  if (first_class == kCharNumber) {
    for (int i = 0; i < 3 && position_ != end_; ++i) {
      const Char c = CharAt(position_);
      if (c.char_class != kCharNumber) break;
      position_ += c.length;
    }
  } else {
    const RunScanner scanner(end_, first_class);
    position_ = scanner.Match(begin);
    if (position_ == begin) {
      // No match here: the unmatched characters up to the next match, or the run's end, are a
      // piece.
      do {
        position_ += scanner.At(position_).length;
      } while (scanner.At(position_).char_class < kEdge && scanner.Match(position_) == position_);
    }
  }
  return {begin, static_cast<size_t>(position_ - begin)};
}

}  // namespace dsv4
