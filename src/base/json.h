// JSON as Python reads and writes it (json.loads / json.dumps): objects keep insertion order,
// numbers keep their text, NaN and Infinity are accepted. The chat wire format needs Python's exact
// text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace dsv4::json {

enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

// An immutable-by-habit tree. Strings are UTF-8; a lone surrogate of the input stands as its
// three-byte form (WTF-8), so that nothing is lost. Duplicate keys: last value, first place.
class Value {
 public:
  using Array = std::vector<Value>;
  using Member = std::pair<std::string, Value>;
  using Object = std::vector<Member>;

  Value() = default;  // null
  static Value Bool(bool value);
  // `text` must be a JSON number (or NaN, Infinity, -Infinity) as written.
  static Value NumberText(std::string text);
  static Value Int(int64_t value);
  static Value Double(double value);
  static Value String(std::string value);
  static Value MakeArray(Array items = {});
  static Value MakeObject(Object members = {});

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_null() const { return kind() == Kind::kNull; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_number() const { return kind() == Kind::kNumber; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_array() const { return kind() == Kind::kArray; }
  bool is_object() const { return kind() == Kind::kObject; }

  // The accessors below demand the kind (DSV4_CHECK), except where they return optional.
  bool as_bool() const;
  const std::string& as_string() const;    // kString
  const std::string& number_text() const;  // kNumber, as written
  const Array& items() const;              // kArray
  const Object& members() const;           // kObject
  // nullopt where this is no number, is not an integer (1.0 is not) or does not fit.
  std::optional<int64_t> to_int64() const;
  // nullopt where this is no number; infinite where it overflows.
  std::optional<double> to_double() const;

  // The member's value, or null where this is no object or lacks it. Linear for small objects,
  // hashed once for large ones.
  const Value* Find(std::string_view key) const;
  // Sets or replaces (keeping the place); this must be an object. Constant time.
  void Set(std::string key, Value value);
  void Append(Value value);  // this must be an array

 private:
  struct Number {
    std::string text;
  };
  struct Members {
    Object list;
    // Open addressing over positions in `list` plus one (0: free); empty while the object is small.
    std::vector<uint32_t> slots;

    size_t Locate(std::string_view key) const;  // position in `list`, or list.size()
    void Set(std::string key, Value value);
    void BuildSlots();
  };
  using Data = std::variant<std::monostate, bool, Number, std::string, Array, Members>;

  Data data_;  // alternatives in the order of Kind
};

// "null", "a boolean", "a number", "a string", "an array", "an object": for messages.
std::string_view KindName(Kind kind);

struct ParseOptions {
  int max_depth = 1000;
  // Integers with more digits than this are refused, as Python's int() does.
  int max_number_digits = 4300;
  // Accepts lone surrogates standing in the text itself in their three-byte form, as a string of an
  // earlier Parse may hold them. Bytes from outside must be UTF-8.
  bool allow_surrogate_bytes = false;
};

// The whole text must be one JSON value (white space around it allowed). Errors name the byte
// offset, what was expected and what was found. Needs no call stack per level; linear time.
Result<Value> Parse(std::string_view text, const ParseOptions& options = {});

// Whether `text` holds a lone surrogate in its three-byte form, so that it cannot be written as
// UTF-8.
bool HasSurrogate(std::string_view text);

// Python's json.dumps(value, ensure_ascii=False), or with ensure_ascii=True. A value holding a lone
// surrogate cannot be UTF-8 and is written ASCII-escaped as a whole. Other bytes that are no UTF-8
// are written as U+FFFD.
std::string Dump(const Value& value, bool ensure_ascii = false);
// The same without blanks after the separators: {"a":1,"b":[2]}.
std::string DumpCompact(const Value& value);
// A JSON string literal with its quotes, as Dump writes it.
std::string Quote(std::string_view text, bool ensure_ascii = false);
// Python's repr of a float: shortest digits that round-trip.
std::string FloatText(double value);

}  // namespace dsv4::json
