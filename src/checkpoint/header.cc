#include "checkpoint/header.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"

namespace dsv4 {
namespace {

using Range = ParsedHeader::Range;

// One entry while it is read.
struct Entry {
  TensorInfo info;
  Range range;
  std::string dtype;
  bool has_dtype = false;
  bool has_shape = false;
  int offsets = -1;  // how many were read; -1 without the key
};

// Accepts {"__metadata__": {text: text}, NAME: {"dtype": text, "shape": [n…], "data_offsets": [a,
// b]}} and nothing else; the first thing that does not fit becomes the error.
class HeaderReader {
 public:
  bool StartObject() {
    switch (place_) {
      case Place::kStart:
        place_ = Place::kTop;
        return true;
      case Place::kMetadataValue:
        place_ = Place::kMetadata;
        return true;
      case Place::kTensorValue:
        place_ = Place::kTensor;
        return true;
      default:
        return Unexpected("an object");
    }
  }

  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    const std::string_view key(text, length);
    switch (place_) {
      case Place::kTop:
        if (key == "__metadata__") {
          place_ = Place::kMetadataValue;
          return !std::exchange(seen_metadata_, true) || Fail("key __metadata__ stands twice");
        }
        entries_.emplace_back().info.name = key;
        place_ = Place::kTensorValue;
        return true;
      case Place::kTensor:
        return TensorKey(key);
      default:  // kMetadata: any key
        return true;
    }
  }

  bool EndObject(rapidjson::SizeType /*members*/) {
    switch (place_) {
      case Place::kTensor:
        place_ = Place::kTop;
        return FinishEntry();
      case Place::kMetadata:
        place_ = Place::kTop;
        return true;
      default:
        return true;
    }
  }

  bool StartArray() {
    if (place_ == Place::kShape && !entry().has_shape) {
      entry().has_shape = true;
      return true;
    }
    if (place_ == Place::kOffsets && entry().offsets < 0) {
      entry().offsets = 0;
      return true;
    }
    return Unexpected("an array");
  }

  bool EndArray(rapidjson::SizeType /*items*/) {
    if (place_ == Place::kOffsets && entry().offsets != 2) return BadOffsetCount();
    place_ = Place::kTensor;
    return true;
  }

  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kDType) return Unexpected("a string");
    entry().dtype.assign(text, length);
    entry().has_dtype = true;
    place_ = Place::kTensor;
    return true;
  }

  bool Uint(unsigned value) { return Number(value); }
  bool Uint64(uint64_t value) { return Number(value); }
  bool Int(int value) { return Int64(value); }
  bool Int64(int64_t value) {
    return value < 0 ? BadNumber(fmt::format("{}", value)) : Number(static_cast<uint64_t>(value));
  }
  bool Double(double value) { return BadNumber(fmt::format("{}", value)); }
  bool Null() { return Unexpected("null"); }
  bool Bool(bool value) { return Unexpected(value ? "true" : "false"); }
  bool RawNumber(const char*, rapidjson::SizeType, bool) { return Unexpected("a number"); }

  const std::optional<Error>& error() const { return error_; }
  std::vector<Entry>& entries() { return entries_; }

 private:
  enum class Place {
    kStart,
    kTop,
    kMetadataValue,
    kMetadata,
    kTensorValue,
    kTensor,
    kDType,
    kShape,
    kOffsets,
  };

  Entry& entry() { return entries_.back(); }

  bool Fail(std::string message) {
    error_ = Error{ErrorKind::kBadInput, std::move(message)};
    return false;
  }
  bool FailTensor(std::string_view message) {
    return Fail(fmt::format("tensor {}: {}", entry().info.name, message));
  }

  bool TensorKey(std::string_view key) {
    if (key == "dtype") {
      place_ = Place::kDType;
      return !entry().has_dtype || FailTensor("dtype stands twice");
    }
    if (key == "shape") {
      place_ = Place::kShape;
      return !entry().has_shape || FailTensor("shape stands twice");
    }
    if (key == "data_offsets") {
      place_ = Place::kOffsets;
      return entry().offsets < 0 || FailTensor("data_offsets stands twice");
    }
    return FailTensor(
        fmt::format("expected the keys dtype, shape and data_offsets, found \"{}\"", key));
  }

  bool Unexpected(std::string_view found) {
    switch (place_) {
      case Place::kStart:
      case Place::kTop:
        return Fail(fmt::format("expected an object of tensors, found {}", found));
      case Place::kMetadataValue:
        return Fail(fmt::format("__metadata__: expected an object, found {}", found));
      case Place::kMetadata:
        return Fail(fmt::format("__metadata__: expected strings, found {}", found));
      case Place::kTensorValue:
      case Place::kTensor:
        return FailTensor(fmt::format("expected an object, found {}", found));
      case Place::kDType:
        return FailTensor(fmt::format("dtype: expected a string, found {}", found));
      case Place::kShape:
        return FailTensor(fmt::format("shape: expected an array of integers, found {}", found));
      case Place::kOffsets:
        return FailTensor(
            fmt::format("data_offsets: expected an array of two integers, found {}", found));
    }
    return false;
  }

  bool BadNumber(std::string_view found) {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return Unexpected("a number");
    return FailTensor(fmt::format("{}: expected integers from 0 to 2^63-1, found {}",
                                  place_ == Place::kShape ? "shape" : "data_offsets", found));
  }

  bool BadOffsetCount() { return FailTensor("data_offsets: expected an array of two integers"); }

  bool Number(uint64_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return BadNumber(fmt::format("{}", value));
    if (place_ == Place::kShape && entry().has_shape) {
      entry().info.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets && entry().offsets >= 0) {
      if (entry().offsets == 2) return BadOffsetCount();
      (entry().offsets == 0 ? entry().range.begin : entry().range.end) = value;
      ++entry().offsets;
      return true;
    }
    return Unexpected("a number");
  }

  bool FinishEntry() {
    for (const auto& [present, key] :
         {std::pair{entry().has_dtype, "dtype"}, std::pair{entry().has_shape, "shape"},
          std::pair{entry().offsets == 2, "data_offsets"}}) {
      if (!present) return FailTensor(fmt::format("{} is missing", key));
    }
    const std::optional<DType> dtype = DTypeFromName(entry().dtype);
    if (!dtype) {
      return FailTensor(fmt::format(
          "dtype: expected F32, BF16, F8_E4M3, F8_E8M0, F4, I8, U8, I32 or I64, found \"{}\"",
          entry().dtype));
    }
    entry().info.dtype = *dtype;
    return CheckSize();
  }

  bool CheckSize() {
    const Range range = entry().range;
    if (range.begin > range.end) {
      return FailTensor(
          fmt::format("data_offsets: begin {} lies behind end {}", range.begin, range.end));
    }
    const auto bytes = BytesOfShape(entry().info.dtype, entry().info.shape);
    if (!bytes) return FailTensor(bytes.error().message);
    if (*bytes != range.end - range.begin) {
      return FailTensor(fmt::format("{} takes {} bytes, but data_offsets [{}, {}] hold {}",
                                    entry().info.TypeText(), *bytes, range.begin, range.end,
                                    range.end - range.begin));
    }
    return true;
  }

  Place place_ = Place::kStart;
  bool seen_metadata_ = false;
  std::vector<Entry> entries_;
  std::optional<Error> error_;
};

Status CheckNames(const std::vector<Entry>& entries) {
  std::unordered_set<std::string_view> names;
  names.reserve(entries.size());
  for (const Entry& entry : entries) {
    // The reader lets an escaped lone surrogate through.
    if (!utf8::IsValid(entry.info.name)) {
      return BadInput("tensor {}: its name holds a lone surrogate",
                      utf8::Sanitize(entry.info.name));
    }
    if (!names.insert(entry.info.name).second) {
      return BadInput("tensor {} stands twice", entry.info.name);
    }
  }
  return {};
}

// `entries` in data order must fill [0, data_bytes) one after the other.
Status CheckRanges(const std::vector<Entry>& entries, uint64_t data_bytes) {
  uint64_t end = 0;
  const Entry* previous = nullptr;
  for (const Entry& entry : entries) {
    const Range range = entry.range;
    if (range.end > data_bytes) {
      return BadInput(
          "tensor {}: data_offsets [{}, {}] reach beyond the {} bytes of data in the file (is it "
          "truncated?)",
          entry.info.name, range.begin, range.end, data_bytes);
    }
    if (range.begin < end) {
      return BadInput("tensor {}: data_offsets [{}, {}] overlap those of {} [{}, {}]",
                      entry.info.name, range.begin, range.end, previous->info.name,
                      previous->range.begin, previous->range.end);
    }
    if (range.begin > end) {
      return BadInput("tensor {}: a hole before its data: bytes {} to {} belong to no tensor",
                      entry.info.name, end, range.begin);
    }
    end = range.end;
    previous = &entry;
  }
  if (end != data_bytes) {
    return BadInput("the tensors end at byte {} of the data, but the file holds {}", end,
                    data_bytes);
  }
  return {};
}

}  // namespace

Result<uint64_t> BytesOfShape(DType dtype, std::span<const int64_t> shape) {
  uint64_t bits = static_cast<uint64_t>(BitsPerElement(dtype));
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return BadInput("shape: expected integers from 0 to 2^63-1, found {}", extent);
    empty = empty || extent == 0;
    // An extent of 0 does not excuse the others: partial products must be safe too.
    if (extent != 0 && __builtin_mul_overflow(bits, static_cast<uint64_t>(extent), &bits)) {
      return BadInput("shape [{}]: the product overflows 64 bits", fmt::join(shape, ", "));
    }
  }
  if (empty) return uint64_t{0};
  if (bits % 8 != 0) {
    return BadInput("shape [{}]: {} elements are no whole number of bytes", fmt::join(shape, ", "),
                    Name(dtype));
  }
  return bits / 8;
}

Result<ParsedHeader> ParseSafetensorsHeader(std::span<const std::byte> json, uint64_t data_bytes) {
  if (json.empty() || json.front() != std::byte{'{'}) {
    return BadInput("the header is not JSON: expected \"{{\" as its first byte");
  }
  HeaderReader handler;
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(reinterpret_cast<const char*>(json.data()), json.size());
  rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> input(stream);
  const auto result =
      reader.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag>(input,
                                                                                           handler);
  if (handler.error()) return std::unexpected(*handler.error());
  if (result.IsError()) {
    return BadInput("the header is not JSON: byte {}: {}", result.Offset(),
                    rapidjson::GetParseError_En(result.Code()));
  }
  // The reader takes a zero byte for the end of its input.
  if (input.Tell() != json.size()) {
    return BadInput("the header is not JSON: byte {}: a zero byte", input.Tell());
  }
  std::vector<Entry>& entries = handler.entries();
  DSV4_TRY(CheckNames(entries));
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.range.begin, a.range.end) < std::pair(b.range.begin, b.range.end);
  });
  DSV4_TRY(CheckRanges(entries, data_bytes));
  ParsedHeader header;
  header.tensors.reserve(entries.size());
  header.ranges.reserve(entries.size());
  for (Entry& entry : entries) {
    header.tensors.push_back(std::move(entry.info));
    header.ranges.push_back(entry.range);
  }
  return header;
}

std::string SafetensorsHeader(std::span<const TensorInfo> tensors) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  const auto key = [&writer](std::string_view text) {
    writer.Key(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  };
  const auto string = [&writer](std::string_view text) {
    writer.String(text.data(), static_cast<rapidjson::SizeType>(text.size()));
  };
  writer.StartObject();
  key("__metadata__");
  writer.StartObject();
  key("format");
  string("pt");
  writer.EndObject();
  uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto bytes = BytesOfShape(tensor.dtype, tensor.shape);
    key(tensor.name);
    writer.StartObject();
    key("dtype");
    string(Name(tensor.dtype));
    key("shape");
    writer.StartArray();
    for (const int64_t extent : tensor.shape) writer.Int64(extent);
    writer.EndArray();
    key("data_offsets");
    writer.StartArray();
    writer.Uint64(end);
    end += bytes.value();
    writer.Uint64(end);
    writer.EndArray();
    writer.EndObject();
  }
  writer.EndObject();
  std::string json(buffer.GetString(), buffer.GetSize());
  json.resize((json.size() + 7) / 8 * 8, ' ');
  static_assert(std::endian::native == std::endian::little);
  const uint64_t length = json.size();
  std::string header(sizeof(length), '\0');
  std::memcpy(header.data(), &length, sizeof(length));
  return header + json;
}

}  // namespace dsv4
