#include <array>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace dsv4::json {
namespace {

// The three-byte form of U+D800…DFFF at `offset`; 0 where something else stands there.
char32_t SurrogateAt(std::string_view text, size_t offset) {
  if (offset + 3 > text.size()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  if (byte(0) != 0xED || byte(1) < 0xA0 || byte(1) > 0xBF || byte(2) < 0x80 || byte(2) > 0xBF) {
    return 0;
  }
  return 0xD000u | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
}

enum class Separators { kSpaced, kTight };

class Writer {
 public:
  Writer(bool ensure_ascii, Separators separators)
      : ensure_ascii_(ensure_ascii),
        comma_(separators == Separators::kSpaced ? ", " : ","),
        colon_(separators == Separators::kSpaced ? ": " : ":") {}

  void WriteValue(const Value& value);
  void WriteString(std::string_view text);
  bool found_surrogate() const { return found_surrogate_; }
  std::string Take() { return std::move(out_); }

 private:
  void WriteNumber(const Value& value);
  void WriteEscape(char32_t unit);
  size_t WriteBeyondAscii(std::string_view text, size_t offset);

  const bool ensure_ascii_;
  const std::string_view comma_;
  const std::string_view colon_;
  bool found_surrogate_ = false;
  std::string out_;
};

void Writer::WriteValue(const Value& value) {
  switch (value.kind()) {
    case Kind::kNull:
      out_ += "null";
      return;
    case Kind::kBool:
      out_ += value.as_bool() ? "true" : "false";
      return;
    case Kind::kNumber:
      return WriteNumber(value);
    case Kind::kString:
      return WriteString(value.as_string());
    case Kind::kArray: {
      out_ += '[';
      bool first = true;
      for (const Value& item : value.items()) {
        if (!std::exchange(first, false)) out_ += comma_;
        WriteValue(item);
      }
      out_ += ']';
      return;
    }
    case Kind::kObject: {
      out_ += '{';
      bool first = true;
      for (const auto& [key, member] : value.members()) {
        if (!std::exchange(first, false)) out_ += comma_;
        WriteString(key);
        out_ += colon_;
        WriteValue(member);
      }
      out_ += '}';
      return;
    }
  }
}

// Integers keep their digits, as Python's int does; floats are written anew.
void Writer::WriteNumber(const Value& value) {
  const std::string& text = value.number_text();
  if (text == "-0") {
    out_ += '0';
  } else if (text.find_first_not_of("-0123456789") == std::string::npos || text == "NaN") {
    out_ += text;
  } else {
    out_ += FloatText(*value.to_double());
  }
}

void Writer::WriteEscape(char32_t unit) {
  fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<uint32_t>(unit));
}

constexpr std::array<std::string_view, 14> kShortEscapes = {
    "", "", "", "", "", "", "", "", "\\b", "\\t", "\\n", "", "\\f", "\\r"};

void Writer::WriteString(std::string_view text) {
  out_ += '"';
  size_t run = 0;  // the characters from here on are written as they are
  size_t i = 0;
  while (i < text.size()) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool plain = byte >= 0x20 && byte != '"' && byte != '\\' && byte < 0x7F;
    if (plain || (byte == 0x7F && !ensure_ascii_)) {
      ++i;
      continue;
    }
    out_ += text.substr(run, i - run);
    if (byte >= 0x80) {
      i += WriteBeyondAscii(text, i);
    } else {
      if (byte == '"' || byte == '\\') {
        out_ += '\\';
        out_ += text[i];
      } else if (byte < kShortEscapes.size() && !kShortEscapes[byte].empty()) {
        out_ += kShortEscapes[byte];
      } else {
        WriteEscape(byte);
      }
      ++i;
    }
    run = i;
  }
  out_ += text.substr(run);
  out_ += '"';
}

// Writes the character at `offset` and returns its length.
size_t Writer::WriteBeyondAscii(std::string_view text, size_t offset) {
  if (const char32_t surrogate = SurrogateAt(text, offset)) {
    found_surrogate_ = true;
    WriteEscape(surrogate);
    return 3;
  }
  const utf8::Decoded decoded = utf8::DecodeAt(text, offset);
  if (!ensure_ascii_) {
    utf8::Append(out_, decoded.code_point);
  } else if (decoded.code_point < 0x10000) {
    WriteEscape(decoded.code_point);
  } else {
    WriteEscape(0xD800u | (decoded.code_point - 0x10000) >> 10);
    WriteEscape(0xDC00u | ((decoded.code_point - 0x10000) & 0x3FFu));
  }
  return static_cast<size_t>(decoded.length);
}

// `write` fills a Writer; it is run again in ASCII form where a lone surrogate turned up.
template <class Write>
std::string WriteWhole(bool ensure_ascii, Separators separators, Write write) {
  Writer writer(ensure_ascii, separators);
  write(writer);
  if (ensure_ascii || !writer.found_surrogate()) return writer.Take();
  Writer ascii(true, separators);
  write(ascii);
  return ascii.Take();
}

}  // namespace

bool HasSurrogate(std::string_view text) {
  for (size_t i = text.find('\xED'); i != std::string_view::npos; i = text.find('\xED', i + 1)) {
    if (SurrogateAt(text, i) != 0) return true;
  }
  return false;
}

std::string Dump(const Value& value, bool ensure_ascii) {
  return WriteWhole(ensure_ascii, Separators::kSpaced,
                    [&](Writer& writer) { writer.WriteValue(value); });
}

std::string DumpCompact(const Value& value) {
  return WriteWhole(false, Separators::kTight, [&](Writer& writer) { writer.WriteValue(value); });
}

std::string Quote(std::string_view text, bool ensure_ascii) {
  return WriteWhole(ensure_ascii, Separators::kSpaced,
                    [&](Writer& writer) { writer.WriteString(text); });
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  // d[.ddd]e±XX with the shortest digits, taken apart and laid out as Python's repr does.
  std::array<char, 32> buffer;
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value),
                                     std::chars_format::scientific);
  DSV4_CHECK(written.ec == std::errc{});
  const std::string_view text(buffer.data(), written.ptr);
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
  if (text[e + 1] == '-') exponent = -exponent;

  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += '.' + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return out + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + '.' + digits.substr(whole);
}

}  // namespace dsv4::json
