#include "base/json.h"

#define XXH_INLINE_ALL
#include <locale.h>
#include <stdlib.h>
#include <xxhash.h>

#include <bit>
#include <charconv>
#include <random>
#include <system_error>
#include <type_traits>

#include "base/check.h"

namespace dsv4::json {
namespace {

static_assert(std::is_nothrow_move_constructible_v<Value>, "vectors of values must move, not copy");

// Up to this many members a scan is as fast as a table.
constexpr size_t kMaxScanned = 16;

// Seeded per process, so that nobody can send keys that all meet in one slot.
size_t HashOf(std::string_view key) {
  static const uint64_t seed = [] {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }();
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

// strtod of the C locale, whatever the program's locale is.
double ParseOutOfRange(const std::string& text) {
  static const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return strtod_l(text.c_str(), nullptr, c_locale);
}

}  // namespace

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "a boolean";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "nothing";
}

Value Value::Bool(bool value) {
  Value result;
  result.data_.emplace<bool>(value);
  return result;
}

Value Value::NumberText(std::string text) {
  Value result;
  result.data_.emplace<Number>(std::move(text));
  return result;
}

Value Value::Int(int64_t value) { return NumberText(fmt::format("{}", value)); }

Value Value::Double(double value) { return NumberText(FloatText(value)); }

Value Value::String(std::string value) {
  Value result;
  result.data_.emplace<std::string>(std::move(value));
  return result;
}

Value Value::MakeArray(Array items) {
  Value result;
  result.data_.emplace<Array>(std::move(items));
  return result;
}

Value Value::MakeObject(Object members) {
  Value result;
  auto& target = result.data_.emplace<Members>();
  target.list.reserve(members.size());
  for (auto& [key, value] : members) target.Set(std::move(key), std::move(value));
  return result;
}

bool Value::as_bool() const {
  DSV4_CHECK(is_bool(), "expected a boolean, found {}", KindName(kind()));
  return std::get<bool>(data_);
}

const std::string& Value::as_string() const {
  DSV4_CHECK(is_string(), "expected a string, found {}", KindName(kind()));
  return std::get<std::string>(data_);
}

const std::string& Value::number_text() const {
  DSV4_CHECK(is_number(), "expected a number, found {}", KindName(kind()));
  return std::get<Number>(data_).text;
}

const Value::Array& Value::items() const {
  DSV4_CHECK(is_array(), "expected an array, found {}", KindName(kind()));
  return std::get<Array>(data_);
}

const Value::Object& Value::members() const {
  DSV4_CHECK(is_object(), "expected an object, found {}", KindName(kind()));
  return std::get<Members>(data_).list;
}

std::optional<int64_t> Value::to_int64() const {
  if (!is_number()) return std::nullopt;
  const std::string& text = number_text();
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::optional<double> Value::to_double() const {
  if (!is_number()) return std::nullopt;
  const std::string& text = number_text();
  double value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Too large and too small share this code; strtod tells them apart.
  if (code == std::errc::result_out_of_range) return ParseOutOfRange(text);
  return value;
}

const Value* Value::Find(std::string_view key) const {
  const auto* object = std::get_if<Members>(&data_);
  if (object == nullptr) return nullptr;
  const size_t position = object->Locate(key);
  return position == object->list.size() ? nullptr : &object->list[position].second;
}

void Value::Set(std::string key, Value value) {
  DSV4_CHECK(is_object(), "expected an object, found {}", KindName(kind()));
  std::get<Members>(data_).Set(std::move(key), std::move(value));
}

void Value::Append(Value value) {
  DSV4_CHECK(is_array(), "expected an array, found {}", KindName(kind()));
  std::get<Array>(data_).push_back(std::move(value));
}

size_t Value::Members::Locate(std::string_view key) const {
  if (slots.empty()) {
    size_t position = 0;
    while (position < list.size() && list[position].first != key) ++position;
    return position;
  }
  const size_t mask = slots.size() - 1;
  for (size_t slot = HashOf(key) & mask; slots[slot] != 0; slot = (slot + 1) & mask) {
    if (list[slots[slot] - 1].first == key) return slots[slot] - 1;
  }
  return list.size();
}

void Value::Members::Set(std::string key, Value value) {
  const size_t position = Locate(key);
  if (position < list.size()) {
    list[position].second = std::move(value);
    return;
  }
  list.emplace_back(std::move(key), std::move(value));
  if (list.size() <= kMaxScanned) return;
  if (list.size() * 2 > slots.size()) return BuildSlots();
  const size_t mask = slots.size() - 1;
  size_t slot = HashOf(list.back().first) & mask;
  while (slots[slot] != 0) slot = (slot + 1) & mask;
  slots[slot] = static_cast<uint32_t>(list.size());
}

void Value::Members::BuildSlots() {
  slots.assign(std::bit_ceil(list.size() * 4), 0);
  const size_t mask = slots.size() - 1;
  for (size_t i = 0; i < list.size(); ++i) {
    size_t slot = HashOf(list[i].first) & mask;
    while (slots[slot] != 0) slot = (slot + 1) & mask;
    slots[slot] = static_cast<uint32_t>(i + 1);
  }
}

}  // namespace dsv4::json
