// JSON as Python reads and writes it (json.loads / json.dumps): objects keep insertion order, numbers
// keep their text, NaN and Infinity are accepted. The chat wire format needs Python's exact text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // The accessors below demand the kind (DSV4_CHECK), except where they return optional.
  bool as_bool() const;
  const std::string& as_string() const;    // kString
  const std::string& number_text() const;  // kNumber, as written
  const Array& items() const;              // kArray
  const Object& members() const;           // kObject
  // nullopt where this is no number, is not an integer (1.0 is not) or does not fit.
  std::optional<int64_t> to_int64() const;
  std::optional<double> to_double() const;  // nullopt where this is no number

  // The member's value, or null where this is no object or lacks it. Linear for small objects,
  // hashed once for large ones.
  const Value* Find(std::string_view key) const;
  // Sets or replaces (keeping the place); this must be an object.
  void Set(std::string key, Value value);
  void Append(Value value);  // this must be an array

 private:
  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  std::string text_;  // string or number text
  Array items_;
  Object members_;
};

struct ParseOptions {
  int max_depth = 1000;
  // Numbers with more digits than this are refused, as Python's int() does.
  int max_number_digits = 4300;
};

// The whole text must be one JSON value (white space around it allowed). Errors name the byte offset,
// what was expected and what was found. Never recurses deeper than max_depth; linear time.
Result<Value> Parse(std::string_view text, const ParseOptions& options = {});

// Python's json.dumps(value, ensure_ascii=False), or with ensure_ascii=True. A value holding a lone
// surrogate cannot be UTF-8 and is written ASCII-escaped as a whole.
// (spec: encoding, section 2 "JSON text" and section 5 points 12-14)
std::string Dump(const Value& value, bool ensure_ascii = false);
// The same without blanks after the separators: {"a":1,"b":[2]}.
std::string DumpCompact(const Value& value);
// A JSON string literal with its quotes, as Dump writes it.
std::string Quote(std::string_view text, bool ensure_ascii = false);
// Python's repr of a float: shortest digits that round-trip.
std::string FloatText(double value);

}  // namespace dsv4::json
