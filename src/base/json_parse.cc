// The reader is our own: RapidJSON's refuses lone \uD8xx escapes, which Python accepts and the wire
// format must carry, and accepts -NaN and Inf, which Python refuses.
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace dsv4::json {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options) : text_(text), options_(options) {}

  Result<Value> Run();

 private:
  // An array or object whose end has not come yet.
  struct Open {
    Value container;
    std::string key;  // of the member whose value comes next
  };

  void SkipSpace();
  bool Accept(char c);
  std::unexpected<Error> Expected(std::string_view what) const;
  Status OpenContainer(Value container);
  Status ParseKey();
  Result<Value> ParseScalar();
  Result<Value> ParseWord(std::string_view word, Value value);
  Result<Value> ParseNumber();
  size_t SkipDigits();
  Result<std::string> ParseString();
  Status ParseEscape(std::string& out);
  Result<char32_t> ParseHex4();
  Status CopyBeyondAscii(std::string& out);
  // Attaches a finished value to the innermost open container, and closes all that end here. False
  // where the document goes on with another value.
  Result<bool> Finish(Value value);

  const std::string_view text_;
  const ParseOptions options_;
  size_t at_ = 0;
  std::vector<Open> open_;
  Value root_;
};

void Parser::SkipSpace() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

bool Parser::Accept(char c) {
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

std::unexpected<Error> Parser::Expected(std::string_view what) const {
  if (at_ == text_.size()) return BadInput("byte {}: expected {}, found the end", at_, what);
  const utf8::Decoded found = utf8::DecodeAt(text_, at_);
  if (found.valid && found.code_point >= 0x20 && found.code_point != 0x7F) {
    return BadInput("byte {}: expected {}, found '{}'", at_, what,
                    text_.substr(at_, static_cast<size_t>(found.length)));
  }
  return BadInput("byte {}: expected {}, found byte 0x{:02X}", at_, what,
                  static_cast<uint8_t>(text_[at_]));
}

Result<Value> Parser::Run() {
  for (bool done = false; !done;) {
    SkipSpace();
    if (Accept('[')) {
      DSV4_TRY(OpenContainer(Value::MakeArray()));
      SkipSpace();
      if (!Accept(']')) continue;
      Value empty = std::move(open_.back().container);
      open_.pop_back();
      DSV4_ASSIGN(done, Finish(std::move(empty)));
    } else if (Accept('{')) {
      DSV4_TRY(OpenContainer(Value::MakeObject()));
      SkipSpace();
      if (!Accept('}')) {
        DSV4_TRY(ParseKey());
        continue;
      }
      Value empty = std::move(open_.back().container);
      open_.pop_back();
      DSV4_ASSIGN(done, Finish(std::move(empty)));
    } else {
      DSV4_ASSIGN(Value scalar, ParseScalar());
      DSV4_ASSIGN(done, Finish(std::move(scalar)));
    }
  }
  SkipSpace();
  if (at_ != text_.size()) return Expected("the end of the JSON text");
  return std::move(root_);
}

Status Parser::OpenContainer(Value container) {
  if (open_.size() >= static_cast<size_t>(options_.max_depth)) {
    return BadInput("byte {}: expected at most {} levels of nesting, found more", at_ - 1,
                    options_.max_depth);
  }
  open_.push_back({std::move(container), {}});
  return {};
}

Status Parser::ParseKey() {
  SkipSpace();
  if (at_ == text_.size() || text_[at_] != '"') return Expected("a member's name in '\"'");
  DSV4_ASSIGN(open_.back().key, ParseString());
  SkipSpace();
  if (!Accept(':')) return Expected("':'");
  return {};
}

Result<bool> Parser::Finish(Value value) {
  while (!open_.empty()) {
    Open& inner = open_.back();
    const bool is_array = inner.container.is_array();
    if (is_array) {
      inner.container.Append(std::move(value));
    } else {
      inner.container.Set(std::move(inner.key), std::move(value));
    }
    SkipSpace();
    if (Accept(',')) {
      if (!is_array) DSV4_TRY(ParseKey());
      return false;
    }
    if (!Accept(is_array ? ']' : '}')) return Expected(is_array ? "',' or ']'" : "',' or '}'");
    value = std::move(inner.container);
    open_.pop_back();
  }
  root_ = std::move(value);
  return true;
}

Result<Value> Parser::ParseScalar() {
  if (at_ == text_.size()) return Expected("a JSON value");
  switch (text_[at_]) {
    case '"': {
      DSV4_ASSIGN(std::string text, ParseString());
      return Value::String(std::move(text));
    }
    case 't':
      return ParseWord("true", Value::Bool(true));
    case 'f':
      return ParseWord("false", Value::Bool(false));
    case 'n':
      return ParseWord("null", Value());
    case 'N':
      return ParseWord("NaN", Value::NumberText("NaN"));
    case 'I':
      return ParseWord("Infinity", Value::NumberText("Infinity"));
    case '-':
      if (at_ + 1 < text_.size() && text_[at_ + 1] == 'I') {
        return ParseWord("-Infinity", Value::NumberText("-Infinity"));
      }
      return ParseNumber();
    default:
      if (IsDigit(text_[at_])) return ParseNumber();
      return Expected("a JSON value");
  }
}

Result<Value> Parser::ParseWord(std::string_view word, Value value) {
  if (!text_.substr(at_).starts_with(word)) return Expected("a JSON value");
  at_ += word.size();
  return value;
}

size_t Parser::SkipDigits() {
  const size_t begin = at_;
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
  return at_ - begin;
}

Result<Value> Parser::ParseNumber() {
  const size_t begin = at_;
  Accept('-');
  size_t num_digits = 1;
  if (!Accept('0')) {
    num_digits = SkipDigits();
    if (num_digits == 0) return Expected("a digit");
  }
  bool is_integer = true;
  if (Accept('.')) {
    is_integer = false;
    if (SkipDigits() == 0) return Expected("a digit");
  }
  if (Accept('e') || Accept('E')) {
    is_integer = false;
    if (!Accept('+')) Accept('-');
    if (SkipDigits() == 0) return Expected("a digit");
  }
  if (is_integer && num_digits > static_cast<size_t>(options_.max_number_digits)) {
    return BadInput("byte {}: expected an integer of at most {} digits, found {}", begin,
                    options_.max_number_digits, num_digits);
  }
  return Value::NumberText(std::string(text_.substr(begin, at_ - begin)));
}

Result<std::string> Parser::ParseString() {
  ++at_;  // the quote
  std::string out;
  for (;;) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<uint8_t>(text_[at_]) >= 0x20 && static_cast<uint8_t>(text_[at_]) < 0x80) {
      ++at_;
    }
    out += text_.substr(begin, at_ - begin);
    if (Accept('"')) return out;
    if (Accept('\\')) {
      DSV4_TRY(ParseEscape(out));
    } else if (at_ < text_.size() && static_cast<uint8_t>(text_[at_]) >= 0x80) {
      DSV4_TRY(CopyBeyondAscii(out));
    } else {
      return Expected("a character of a string or '\"'");
    }
  }
}

Status Parser::CopyBeyondAscii(std::string& out) {
  const utf8::Decoded decoded = utf8::DecodeAt(text_, at_);
  auto length = static_cast<size_t>(decoded.length);
  if (!decoded.valid) {
    if (!options_.allow_surrogate_bytes || !HasSurrogate(text_.substr(at_, 3))) {
      return Expected("UTF-8");
    }
    length = 3;
  }
  out += text_.substr(at_, length);
  at_ += length;
  return {};
}

Status Parser::ParseEscape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ < text_.size()) {
    if (const size_t i = kLetters.find(text_[at_]); i != std::string_view::npos) {
      out += kMeanings[i];
      ++at_;
      return {};
    }
  }
  if (!Accept('u')) return Expected("one of \"\\/bfnrtu after '\\'");
  DSV4_ASSIGN(char32_t code_point, ParseHex4());
  // A high surrogate takes a low one that follows as an escape too; each stands alone otherwise.
  if (code_point >= 0xD800 && code_point < 0xDC00 && text_.substr(at_).starts_with("\\u")) {
    const size_t second = at_;
    at_ += 2;
    DSV4_ASSIGN(const char32_t low, ParseHex4());
    if (low >= 0xDC00 && low < 0xE000) {
      code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
    } else {
      at_ = second;
    }
  }
  utf8::Append(out, code_point);
  return {};
}

Result<char32_t> Parser::ParseHex4() {
  char32_t value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const char lower = static_cast<char>(c | 0x20);
    if (!IsDigit(c) && (lower < 'a' || lower > 'f')) return Expected("four hexadecimal digits");
    value = value << 4 | static_cast<char32_t>(IsDigit(c) ? c - '0' : lower - 'a' + 10);
  }
  return value;
}

}  // namespace

Result<Value> Parse(std::string_view text, const ParseOptions& options) {
  return Parser(text, options).Run();
}

}  // namespace dsv4::json
