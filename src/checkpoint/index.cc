#include "checkpoint/index.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/utf8.h"

namespace dsv4 {
namespace {

// Reads {"weight_map": {TENSOR: FILE, …}, …}; other members may be anything.
class IndexReader : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, IndexReader> {
 public:
  bool Default() { return Unexpected("something else"); }

  bool StartObject() {
    if (depth_ == 1 && in_map_key_) {
      in_map_ = true;
      in_map_key_ = false;
      seen_map_ = true;
    } else if (in_map_) {
      return Unexpected("an object");
    }
    ++depth_;
    return true;
  }

  bool EndObject(rapidjson::SizeType /*members*/) {
    --depth_;
    in_map_ = in_map_ && depth_ > 1;
    return true;
  }

  bool StartArray() {
    if (!Skip("an array")) return false;
    ++depth_;
    return true;
  }

  bool EndArray(rapidjson::SizeType /*items*/) {
    --depth_;
    return true;
  }

  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    const std::string_view key(text, length);
    if (in_map_) {
      tensor_ = key;
    } else if (depth_ == 1 && key == "weight_map") {
      if (seen_map_) return Fail("weight_map stands twice");
      in_map_key_ = true;
    }
    return true;
  }

  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    if (!in_map_) return Skip("a string");
    return Add(std::string_view(text, length));
  }

  bool Null() { return Skip("null"); }
  bool Bool(bool /*value*/) { return Skip("a truth value"); }
  bool Int(int /*value*/) { return Skip("a number"); }
  bool Uint(unsigned /*value*/) { return Skip("a number"); }
  bool Int64(int64_t /*value*/) { return Skip("a number"); }
  bool Uint64(uint64_t /*value*/) { return Skip("a number"); }
  bool Double(double /*value*/) { return Skip("a number"); }

  const std::optional<Error>& error() const { return error_; }
  bool seen_map() const { return seen_map_; }
  CheckpointIndex& index() { return index_; }

 private:
  bool Fail(std::string message) {
    error_ = Error{ErrorKind::kBadInput, std::move(message)};
    return false;
  }

  bool Unexpected(std::string_view found) {
    if (depth_ == 0) return Fail(fmt::format("expected an object, found {}", found));
    if (in_map_key_) return Fail(fmt::format("weight_map: expected an object, found {}", found));
    return Fail(
        fmt::format("weight_map: tensor {}: expected a file name, found {}", tensor_, found));
  }

  // Values outside the map do not matter.
  bool Skip(std::string_view found) {
    return (depth_ > 0 && !in_map_ && !in_map_key_) || Unexpected(found);
  }

  bool Add(std::string_view file) {
    // The reader lets an escaped lone surrogate through.
    if (!utf8::IsValid(tensor_) || !utf8::IsValid(file)) {
      return Fail(fmt::format("weight_map: tensor {}: a lone surrogate", utf8::Sanitize(tensor_)));
    }
    if (const char* const fault = FaultOfName(file)) {
      return Fail(fmt::format("weight_map: tensor {}: file \"{}\" {}", tensor_, file, fault));
    }
    const auto [place, is_new] =
        file_of_name_.try_emplace(std::string(file), static_cast<uint32_t>(index_.files.size()));
    if (is_new) index_.files.emplace_back(file);
    index_.entries.push_back({tensor_, place->second});
    return true;
  }

  static const char* FaultOfName(std::string_view file) {
    if (file.empty() || file.find('\0') != std::string_view::npos) return "is no file name";
    const std::filesystem::path path(file);
    if (path.is_absolute()) return "points outside the folder (an absolute path)";
    for (const auto& part : path) {
      if (part == "..") return "points outside the folder (..)";
    }
    return path.has_filename() && path.filename() != "." ? nullptr : "is no file name";
  }

  int depth_ = 0;
  bool in_map_key_ = false;  // weight_map was read, its value comes
  bool in_map_ = false;
  bool seen_map_ = false;
  std::string tensor_;
  std::unordered_map<std::string, uint32_t> file_of_name_;
  CheckpointIndex index_;
  std::optional<Error> error_;
};

}  // namespace

Result<CheckpointIndex> ParseIndex(std::string_view json) {
  IndexReader handler;
  rapidjson::Reader reader;
  rapidjson::MemoryStream stream(json.data(), json.size());
  rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> input(stream);
  const auto result =
      reader.Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseIterativeFlag>(input,
                                                                                           handler);
  if (handler.error()) return std::unexpected(*handler.error());
  if (result.IsError()) {
    return BadInput("not JSON: byte {}: {}", result.Offset(),
                    rapidjson::GetParseError_En(result.Code()));
  }
  if (!handler.seen_map()) return BadInput("weight_map is missing");
  CheckpointIndex index = std::move(handler.index());
  std::unordered_set<std::string_view> names;
  names.reserve(index.entries.size());
  for (const CheckpointIndex::Entry& entry : index.entries) {
    if (!names.insert(entry.tensor).second) {
      return BadInput("weight_map: tensor {} stands twice", entry.tensor);
    }
  }
  if (index.entries.empty()) return BadInput("weight_map is empty");
  return index;
}

}  // namespace dsv4
