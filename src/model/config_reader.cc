#include "model/config_reader.h"

#include <cmath>
#include <limits>

namespace dsv4::model {
namespace {

bool SameValue(const json::Value& a, const json::Value& b) {
  if (a.is_number() && b.is_number()) return a.to_double() == b.to_double();
  return json::DumpCompact(a) == json::DumpCompact(b);
}

}  // namespace

std::string Describe(const json::Value& value) {
  constexpr size_t kLongest = 40;
  const std::string_view kind = json::KindName(value.kind());
  if (value.is_number() && value.number_text().size() <= kLongest) return value.number_text();
  if (value.is_string() && value.as_string().size() <= kLongest) {
    return json::Quote(value.as_string());
  }
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  return std::string(kind);
}

const json::Value* FieldReader::At(std::string_view path) const {
  const json::Value* value = &object_;
  while (value != nullptr && !path.empty()) {
    const size_t dot = path.find('.');
    value = value->Find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  }
  return value == nullptr || value == &object_ || value->is_null() ? nullptr : value;
}

Result<const json::Value*> FieldReader::Find(const FieldName& name) const {
  const json::Value* const inference = At(name.inference);
  if (name.inference == name.checkpoint) return inference;
  const json::Value* const checkpoint = At(name.checkpoint);
  if (inference != nullptr && checkpoint != nullptr && !SameValue(*inference, *checkpoint)) {
    return BadInput("{} and {} are the same field, but one is {} and the other {}", name.inference,
                    name.checkpoint, Describe(*inference), Describe(*checkpoint));
  }
  return inference != nullptr ? inference : checkpoint;
}

std::string_view FieldReader::Spelling(const FieldName& name) const {
  if (name.checkpoint.empty()) return name.inference;
  return At(name.checkpoint) == nullptr && At(name.inference) != nullptr ? name.inference
                                                                         : name.checkpoint;
}

std::unexpected<Error> FieldReader::Wrong(const FieldName& name, std::string_view expected,
                                          const json::Value& found) const {
  return BadInput("{}: expected {}, found {}", Spelling(name), expected, Describe(found));
}

namespace {

std::unexpected<Error> Missing(const FieldName& name) {
  if (name.inference == name.checkpoint || name.inference.empty()) {
    return BadInput("{}: expected a value, found none", name.checkpoint);
  }
  return BadInput("{} (or {}): expected a value, found none", name.checkpoint, name.inference);
}

}  // namespace

Result<int64_t> FieldReader::Int(const FieldName& name, int64_t min, int64_t max,
                                 std::optional<int64_t> absent) const {
  DSV4_ASSIGN(const json::Value* const value, Find(name));
  if (value == nullptr) {
    if (absent) return *absent;
    return Missing(name);
  }
  const std::optional<int64_t> number = value->to_int64();
  if (!number || *number < min || *number > max) {
    return Wrong(name, fmt::format("an integer from {} to {}", min, max), *value);
  }
  return *number;
}

Result<double> FieldReader::Number(const FieldName& name, double min, bool exclusive,
                                   std::optional<double> absent) const {
  DSV4_ASSIGN(const json::Value* const value, Find(name));
  if (value == nullptr) {
    if (absent) return *absent;
    return Missing(name);
  }
  const std::optional<double> number = value->to_double();
  // A positive value must still be one as a float.
  const bool fits =
      number && std::abs(*number) <= std::numeric_limits<float>::max() &&
      (exclusive ? *number > min && static_cast<float>(*number) > 0.0f : *number >= min);
  if (!fits) {
    return Wrong(name, fmt::format("a number {} {}", exclusive ? "above" : "of at least", min),
                 *value);
  }
  return *number;
}

Result<std::optional<std::string>> FieldReader::Text(const FieldName& name) const {
  DSV4_ASSIGN(const json::Value* const value, Find(name));
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return Wrong(name, "a string", *value);
  return value->as_string();
}

}  // namespace dsv4::model
