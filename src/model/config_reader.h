// Fields of a configuration by name, in either dialect, with errors that name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace dsv4::model {

// A field's name in the inference dialect and in config.json; the same text twice where they agree,
// an empty text where a dialect lacks the field. "a.b" is member b of the object a.
struct FieldName {
  std::string_view inference;
  std::string_view checkpoint;
};

class FieldReader {
 public:
  explicit FieldReader(const json::Value& object) : object_(object) {}

  // The field's value under either name, null where both are absent or JSON null. An error where
  // both names are present with different values.
  Result<const json::Value*> Find(const FieldName& name) const;
  // The name the JSON uses for the field; where it has none, the one of config.json.
  std::string_view Spelling(const FieldName& name) const;

  // `absent` is the value of a field that is not there; without it the field is demanded.
  Result<int64_t> Int(const FieldName& name, int64_t min, int64_t max,
                      std::optional<int64_t> absent) const;
  // Finite as a float too; at least `min` (above it where `exclusive`).
  Result<double> Number(const FieldName& name, double min, bool exclusive,
                        std::optional<double> absent) const;
  // nullopt where absent.
  Result<std::optional<std::string>> Text(const FieldName& name) const;

  // FIELD: expected WHAT, found VALUE.
  std::unexpected<Error> Wrong(const FieldName& name, std::string_view expected,
                               const json::Value& found) const;

 private:
  const json::Value* At(std::string_view path) const;  // null where absent or JSON null

  const json::Value& object_;
};

// A value as a message shows it: numbers and short strings as they are, the rest by kind.
std::string Describe(const json::Value& value);

}  // namespace dsv4::model
