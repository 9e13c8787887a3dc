// The character classes that the published splitting patterns tell apart (Unicode 16.0).
#pragma once

#include <cstdint>

namespace dsv4 {

// Marks count as letters and punctuation as symbols: no pattern tells them apart.
enum CharClass : uint8_t {
  kCharOther = 0,    // control, format, private use, unassigned; surrogates
  kCharWord = 1,     // \p{L} \p{M}
  kCharSign = 2,     // \p{P} \p{S}
  kCharNewline = 3,  // CR, LF
  kCharSpace = 4,    // the rest of \s
  kCharNumber = 16,  // \p{N}
};
// Added to other, word or sign for U+4E00–9FA5, U+3040–309F, U+30A0–30FF (the second pattern).
inline constexpr uint8_t kEastAsian = 8;

#include "text/unicode_classes.inc"  // kUnicodeBlocks, kUnicodeClasses

// `code_point` is at most 10FFFF.
inline uint8_t CharClassOf(char32_t code_point) {
  return kUnicodeClasses[kUnicodeBlocks[code_point >> 7] * 128u + (code_point & 127u)];
}

}  // namespace dsv4
