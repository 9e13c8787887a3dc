#include "base/utf8.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace dsv4::utf8 {
namespace {

// Length of the incomplete character, if any, with which `text` ends.
size_t TruncatedTail(std::string_view text) {
  // The character that the end cuts off began at most 3 bytes before it, with the last byte that is
  // no continuation.
  for (size_t length = 1; length <= 3 && length <= text.size(); ++length) {
    const size_t begin = text.size() - length;
    if ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) continue;
    const Decoded tail = DecodeAt(text, begin);
    return tail.truncated && static_cast<size_t>(tail.length) == length ? length : 0;
  }
  return 0;
}

// Length of the longest ASCII prefix of text[offset…).
size_t AsciiRun(std::string_view text, size_t offset) {
  size_t end = offset;
  while (end + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + end, 8);
    if ((word & 0x8080808080808080u) != 0) break;
    end += 8;
  }
  while (end < text.size() && static_cast<uint8_t>(text[end]) < 0x80) ++end;
  return end - offset;
}

// What a lead byte promises: its number of continuation bytes, and the range of the first of them
// (the later ones are 80–BF). Zero continuations: no lead byte.
struct Lead {
  int continuations;
  uint8_t low, high;
};

Lead LeadOf(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Decoded DecodeAt(std::string_view text, size_t offset) {
  const auto first = static_cast<uint8_t>(text[offset]);
  if (first < 0x80) return {first, 1, true};
  // The usual cases first, for speed: two bytes, and three but for the leads with narrow ranges.
  if (offset + 3 <= text.size() && first >= 0xC2 && first < 0xF0 && first != 0xE0 &&
      first != 0xED) {
    const auto second = static_cast<uint8_t>(text[offset + 1]);
    const auto third = static_cast<uint8_t>(text[offset + 2]);
    if ((second & 0xC0) == 0x80) {
      const char32_t two = (first & 0x1Fu) << 6 | (second & 0x3Fu);
      if (first < 0xE0) return {two, 2, true};
      if ((third & 0xC0) == 0x80) return {two << 6 | (third & 0x3Fu), 3, true};
    }
  }
  const Lead lead = LeadOf(first);
  if (lead.continuations == 0) return {kReplacement, 1, false};
  char32_t code_point = first & (0x3Fu >> lead.continuations);
  for (int i = 1; i <= lead.continuations; ++i) {
    if (offset + static_cast<size_t>(i) >= text.size()) return {kReplacement, i, false, true};
    const auto byte = static_cast<uint8_t>(text[offset + static_cast<size_t>(i)]);
    const uint8_t low = i == 1 ? lead.low : uint8_t{0x80};
    const uint8_t high = i == 1 ? lead.high : uint8_t{0xBF};
    if (byte < low || byte > high) return {kReplacement, i, false};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  return {code_point, lead.continuations + 1, true};
}

bool IsValid(std::string_view text) {
  for (size_t i = AsciiRun(text, 0); i < text.size(); i += AsciiRun(text, i)) {
    const Decoded decoded = DecodeAt(text, i);
    if (!decoded.valid) return false;
    i += static_cast<size_t>(decoded.length);
  }
  return true;
}

std::string Sanitize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t ascii = AsciiRun(text, i);
    out.append(text, i, ascii);
    i += ascii;
    if (i == text.size()) break;
    const Decoded decoded = DecodeAt(text, i);
    const auto length = static_cast<size_t>(decoded.length);
    out.append(decoded.valid ? text.substr(i, length) : kReplacementText);
    i += length;
  }
  return out;
}

std::string Stream::Push(std::string_view bytes) {
  std::string text = std::move(held_);
  text += bytes;
  const size_t whole = text.size() - TruncatedTail(text);
  held_ = text.substr(whole);
  return Sanitize(std::string_view(text).substr(0, whole));
}

std::string Stream::Flush() { return Sanitize(std::exchange(held_, {})); }

void Append(std::string& out, char32_t code_point) {
  DSV4_CHECK(code_point <= 0x10FFFF, "U+{:X} is no code point", static_cast<uint32_t>(code_point));
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80u | (code_point >> shift & 0x3Fu));
  };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += {static_cast<char>(0xC0u | code_point >> 6), tail(0)};
  } else if (code_point < 0x10000) {
    out += {static_cast<char>(0xE0u | code_point >> 12), tail(6), tail(0)};
  } else {
    out += {static_cast<char>(0xF0u | code_point >> 18), tail(12), tail(6), tail(0)};
  }
}

}  // namespace dsv4::utf8
