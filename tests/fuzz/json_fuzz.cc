// Any bytes as JSON: refused, or a value that each of the writers' texts gives back.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/utf8.h"

namespace {

void CheckMembers(const dsv4::json::Value& value) {
  if (value.is_array()) {
    for (const auto& item : value.items()) CheckMembers(item);
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.members()) {
      DSV4_CHECK(value.Find(key) == &member);
      CheckMembers(member);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsv4;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<json::Value> value = json::Parse(text);
  if (!value) {
    DSV4_CHECK(value.error().message.starts_with("byte "));
    return 0;
  }
  DSV4_CHECK(utf8::IsValid(text));
  CheckMembers(*value);
  const std::string dumped = json::Dump(*value);
  const std::string compact = json::DumpCompact(*value);
  const std::string ascii = json::Dump(*value, true);
  for (const std::string* written : {&dumped, &compact, &ascii}) {
    DSV4_CHECK(utf8::IsValid(*written));
    const Result<json::Value> back = json::Parse(*written);
    DSV4_CHECK(back.has_value());
    DSV4_CHECK(json::Dump(*back) == dumped && json::Dump(*back, true) == ascii);
  }
  return 0;
}
