#include <charconv>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>

#include "text/tokenizer.h"
#include "tools/batch.h"
#include "tools/commands.h"
#include "tools/model_path.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

struct Arguments {
  std::string tokenizer;  // file
  std::string model;      // whose folder holds tokenizer.json
  bool batch = false;
  bool plain = false;
  bool stats = false;
  bool skip_special = false;
  bool bytes = false;
};

Result<Tokenizer> LoadTokenizer(const Arguments& arguments) {
  if (!arguments.tokenizer.empty()) return Tokenizer::Load(arguments.tokenizer);
  DSV4_ASSIGN(const std::filesystem::path model, ModelPathFromArgument(arguments.model));
  return Tokenizer::Load((model / "tokenizer.json").string());
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<std::string> BytesOfHex(std::string_view hex) {
  if (hex.size() % 2 != 0)
    return BadInput("bytes_hex: expected digits in pairs, found {}", hex.size());
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = HexDigit(hex[i]), low = HexDigit(hex[i + 1]);
    if (high < 0 || low < 0) {
      return BadInput("bytes_hex: expected hexadecimal digits, found '{}'", hex.substr(i, 2));
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string HexOfBytes(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes)
    fmt::format_to(std::back_inserter(hex), "{:02x}", static_cast<uint8_t>(byte));
  return hex;
}

// Any integer is an id; those outside the vocabulary decode to nothing, and -1 stands for them all.
int32_t IdOf(int64_t number) {
  return number < 0 || number > INT32_MAX ? -1 : static_cast<int32_t>(number);
}

Result<std::vector<int32_t>> BatchIds(const json::Value& line) {
  const json::Value* list = line.Find("ids");
  if (list == nullptr || !list->is_array()) {
    return BadInput("ids: expected an array, found {}",
                    list == nullptr ? "nothing" : KindName(list->kind()));
  }
  std::vector<int32_t> ids;
  for (const json::Value& item : list->items()) {
    const std::optional<int64_t> id = item.to_int64();
    if (!id)
      return BadInput("ids[{}]: expected an integer, found {}", ids.size(), json::Dump(item));
    ids.push_back(IdOf(*id));
  }
  return ids;
}

void SetDecoded(const Tokenizer& tokenizer, std::span<const int32_t> ids, json::Value& answer) {
  answer.Set("decoded", json::Value::String(tokenizer.Decode(ids, false)));
  answer.Set("decoded_skip", json::Value::String(tokenizer.Decode(ids, true)));
}

Result<json::Value> TokenizeLine(const Tokenizer& tokenizer, AddedTokenText added,
                                 const json::Value& line) {
  std::vector<int32_t> ids;
  json::Value answer = json::Value::MakeObject();
  if (line.Find("text") == nullptr && line.Find("bytes_hex") == nullptr &&
      line.Find("ids") != nullptr) {
    DSV4_ASSIGN(ids, BatchIds(line));
    answer.Set("ids", *line.Find("ids"));
  } else {
    std::string text;
    if (line.Find("bytes_hex") != nullptr) {
      DSV4_ASSIGN(const std::string hex, BatchString(line, "bytes_hex"));
      DSV4_ASSIGN(text, BytesOfHex(hex));
    } else {
      DSV4_ASSIGN(text, BatchString(line, "text"));
    }
    ids = tokenizer.Encode(text, added);
    json::Value::Array items;
    for (const int32_t id : ids) items.push_back(json::Value::Int(id));
    answer.Set("ids", json::Value::MakeArray(std::move(items)));
  }
  SetDecoded(tokenizer, ids, answer);
  return answer;
}

Status Tokenize(const Arguments& arguments) {
  DSV4_ASSIGN(const Tokenizer tokenizer, LoadTokenizer(arguments));
  const auto added = arguments.plain ? AddedTokenText::kPlain : AddedTokenText::kTokens;
  if (arguments.batch) {
    return RunBatch([&](const json::Value& line) { return TokenizeLine(tokenizer, added, line); });
  }
  DSV4_ASSIGN(const std::string text, ReadStandardInput());
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<int32_t> ids = tokenizer.Encode(text, added);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  if (arguments.stats) {
    WriteStandardError(fmt::format("{} bytes, {} tokens, {:.6f} s, {:.2f} MB/s\n", text.size(),
                                   ids.size(), taken.count(),
                                   static_cast<double>(text.size()) / taken.count() / 1e6));
  }
  return WriteStandardOutput(fmt::format("{}\n", fmt::join(ids, " ")));
}

Result<json::Value> DetokenizeLine(const Tokenizer& tokenizer, const json::Value& line) {
  DSV4_ASSIGN(const std::vector<int32_t> ids, BatchIds(line));
  json::Value answer = json::Value::MakeObject();
  SetDecoded(tokenizer, ids, answer);
  answer.Set("decoded_hex", json::Value::String(HexOfBytes(tokenizer.DecodeBytes(ids, false))));
  return answer;
}

Result<std::vector<int32_t>> IdsOfText(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  constexpr size_t kLongestQuote = 40;  // bytes of a word that a message shows
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = text.find_first_not_of(kBlanks, at)) {
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int64_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size()) {
      return BadInput("standard input, byte {}: expected a token id, found '{}'", at,
                      word.substr(0, kLongestQuote));
    }
    ids.push_back(IdOf(id));
    at = end;
  }
  return ids;
}

Status Detokenize(const Arguments& arguments) {
  DSV4_ASSIGN(const Tokenizer tokenizer, LoadTokenizer(arguments));
  if (arguments.batch) {
    return RunBatch([&](const json::Value& line) { return DetokenizeLine(tokenizer, line); });
  }
  DSV4_ASSIGN(const std::string text, ReadStandardInput());
  DSV4_ASSIGN(const std::vector<int32_t> ids, IdsOfText(text));
  return WriteTextToStandardOutput(arguments.bytes
                                       ? tokenizer.DecodeBytes(ids, arguments.skip_special)
                                       : tokenizer.Decode(ids, arguments.skip_special));
}

void AddSource(CLI::App* verb, Arguments& arguments) {
  CLI::Option_group* const source = verb->add_option_group("Tokenizer");
  source->add_option("--tokenizer", arguments.tokenizer, "The file tokenizer.json");
  source->add_option("--model", arguments.model,
                     "A model's folder, or org/name in the Hugging Face cache");
  source->require_option(1);
}

}  // namespace

void AddTokenize(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand(
      "tokenize", "Turn standard input into token ids, on one line with blanks between");
  AddSource(verb, *arguments);
  verb->add_flag(
      "--batch", arguments->batch,
      R"(Lines {"id","text"|"bytes_hex"|"ids"} in, {"id","ids","decoded","decoded_skip"} or )"
      R"({"id","error"} out)");
  verb->add_flag("--plain", arguments->plain,
                 "Special tokens' strings such as <think> are ordinary text");
  verb->add_flag("--stats", arguments->stats, "Say on standard error how fast it was");
  verb->footer(
      "Example: printf 'Hello <think>' | dsv4 tokenize --tokenizer "
      "models/tokenizer/tokenizer.json\n"
      "The input is taken byte for byte, a last newline included. Bytes that are no UTF-8 become "
      "U+FFFD.\nWith --batch a line of \"ids\" alone is decoded, other members are passed over, "
      "and "
      "an error is\nof its line alone: the exit code stays 0.");
  verb->callback(
      [arguments, selected] { *selected = [arguments] { return Tokenize(*arguments); }; });
}

void AddDetokenize(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb =
      app.add_subcommand("detokenize", "Turn token ids on standard input into their text");
  AddSource(verb, *arguments);
  verb->add_flag("--batch", arguments->batch,
                 R"(Lines {"id","ids"} in, {"id","decoded","decoded_skip","decoded_hex"} or )"
                 R"({"id","error"} out)");
  verb->add_flag("--skip-special", arguments->skip_special,
                 "Leave out tokens marked special (<think> is not)");
  verb->add_flag("--bytes", arguments->bytes,
                 "Write the tokens' bytes as they are, valid UTF-8 or not");
  verb->footer(
      "Example: echo 19923 2058 | dsv4 detokenize --tokenizer models/tokenizer/tokenizer.json\n"
      "Ids outside the vocabulary add nothing. No newline is added but on a terminal.\n"
      "With --batch an error is of its line alone: the exit code stays 0.");
  verb->callback(
      [arguments, selected] { *selected = [arguments] { return Detokenize(*arguments); }; });
}

}  // namespace dsv4::tools
