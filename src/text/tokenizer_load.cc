#include <array>
#include <limits>
#include <map>

#include "base/json.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "text/byte_level.h"
#include "text/name_index.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_tables.h"

namespace dsv4 {
namespace {

using json::Value;

constexpr size_t kMaxFileBytes = size_t{1} << 30;

// What a message says that it found: scalars as they stand, containers by kind.
std::string Found(const Value* value) {
  if (value == nullptr) return "nothing";
  if (value->is_array() || value->is_object()) return std::string(KindName(value->kind()));
  std::string text = json::Dump(*value);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return utf8::Sanitize(text);
}

bool IsNullOrAbsent(const Value* value) { return value == nullptr || value->is_null(); }

Status ExpectNull(const Value& parent, std::string_view where, std::string_view key) {
  const Value* value = parent.Find(key);
  if (IsNullOrAbsent(value)) return {};
  return BadInput("{}{}: expected null, found {}", where, key, Found(value));
}

// Absent and null count as false.
Result<bool> BoolOr(const Value& parent, std::string_view where, std::string_view key,
                    bool fallback) {
  const Value* value = parent.Find(key);
  if (IsNullOrAbsent(value)) return fallback;
  if (!value->is_bool()) {
    return BadInput("{}{}: expected a boolean, found {}", where, key, Found(value));
  }
  return value->as_bool();
}

// `fallback` is what the reference takes where the key is absent.
Status ExpectBool(const Value& parent, std::string_view where, std::string_view key, bool expected,
                  bool fallback) {
  DSV4_ASSIGN(const bool found, BoolOr(parent, where, key, fallback));
  if (found == expected) return {};
  return BadInput("{}{}: expected {}, found {}{}", where, key, expected, found,
                  parent.Find(key) == nullptr ? " (its default)" : "");
}

Status ExpectText(const Value* value, std::string_view where, std::string_view expected) {
  if (value != nullptr && value->is_string() && value->as_string() == expected) return {};
  return BadInput("{}: expected {}, found {}", where, json::Quote(expected), Found(value));
}

Result<const Value*> ExpectKind(const Value& parent, std::string_view where, std::string_view key,
                                json::Kind kind) {
  const Value* value = parent.Find(key);
  if (value != nullptr && value->kind() == kind) return value;
  return BadInput("{}{}: expected {}, found {}", where, key, KindName(kind), Found(value));
}

Result<int32_t> ExpectId(const Value* value, std::string_view where) {
  const std::optional<int64_t> id = value == nullptr ? std::nullopt : value->to_int64();
  if (!id || *id < 0 || *id >= BytePairs::kMaxIds) {
    return BadInput("{}: expected an id from 0 to {}, found {}", where, BytePairs::kMaxIds - 1,
                    Found(value));
  }
  return static_cast<int32_t>(*id);
}

Status CheckNormalizer(const Value& root) {
  const Value* normalizer = root.Find("normalizer");
  if (IsNullOrAbsent(normalizer)) return {};
  DSV4_TRY(ExpectText(normalizer->Find("type"), "normalizer.type", "Sequence"));
  DSV4_ASSIGN(const Value* const list,
              ExpectKind(*normalizer, "normalizer.", "normalizers", json::Kind::kArray));
  if (list->items().empty()) return {};
  return BadInput("normalizer.normalizers: expected an empty array, found {}",
                  Found(list->items().front().Find("type")));
}

Status CheckPretokenizer(const Value& root) {
  const Value* pre = root.Find("pre_tokenizer");
  if (IsNullOrAbsent(pre))
    return BadInput("pre_tokenizer: expected a Sequence, found {}", Found(pre));
  DSV4_TRY(ExpectText(pre->Find("type"), "pre_tokenizer.type", "Sequence"));
  DSV4_ASSIGN(const Value* const list,
              ExpectKind(*pre, "pre_tokenizer.", "pretokenizers", json::Kind::kArray));
  constexpr size_t kNumSplits = std::size(kSplitPatterns);
  if (list->items().size() != kNumSplits + 1) {
    return BadInput("pre_tokenizer.pretokenizers: expected {} steps, found {}", kNumSplits + 1,
                    list->items().size());
  }
  for (size_t i = 0; i < kNumSplits; ++i) {
    const Value& split = list->items()[i];
    const std::string where = fmt::format("pre_tokenizer.pretokenizers[{}].", i);
    DSV4_TRY(ExpectText(split.Find("type"), where + "type", "Split"));
    DSV4_ASSIGN(const Value* const pattern,
                ExpectKind(split, where, "pattern", json::Kind::kObject));
    DSV4_TRY(ExpectText(pattern->Find("Regex"), where + "pattern.Regex", kSplitPatterns[i]));
    DSV4_TRY(ExpectText(split.Find("behavior"), where + "behavior", "Isolated"));
    DSV4_TRY(ExpectBool(split, where, "invert", false, false));
  }
  const std::string where = fmt::format("pre_tokenizer.pretokenizers[{}].", kNumSplits);
  const Value& bytes = list->items()[kNumSplits];
  DSV4_TRY(ExpectText(bytes.Find("type"), where + "type", "ByteLevel"));
  DSV4_TRY(ExpectBool(bytes, where, "add_prefix_space", false, true));
  return ExpectBool(bytes, where, "use_regex", false, true);
}

// A ByteLevel post-processor moves offsets only, and its decoder has no options that do anything.
Status CheckRest(const Value& root) {
  DSV4_TRY(CheckNormalizer(root));
  DSV4_TRY(CheckPretokenizer(root));
  if (const Value* post = root.Find("post_processor"); !IsNullOrAbsent(post)) {
    DSV4_TRY(ExpectText(post->Find("type"), "post_processor.type", "ByteLevel"));
  }
  const Value* decoder = root.Find("decoder");
  DSV4_TRY(ExpectText(decoder == nullptr ? nullptr : decoder->Find("type"), "decoder.type",
                      "ByteLevel"));
  DSV4_TRY(ExpectNull(root, "", "truncation"));
  return ExpectNull(root, "", "padding");
}

// unk_token and fuse_unk are not looked at: with a token for every byte nothing is unknown.
Status CheckModelOptions(const Value& model) {
  DSV4_TRY(ExpectText(model.Find("type"), "model.type", "BPE"));
  const Value* dropout = model.Find("dropout");
  if (!IsNullOrAbsent(dropout) && dropout->to_double() != 0.0) {
    return BadInput("model.dropout: expected null, found {}", Found(dropout));
  }
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Value* affix = model.Find(key);
    if (affix != nullptr && affix->is_string() && affix->as_string().empty()) continue;
    DSV4_TRY(ExpectNull(model, "model.", key));
  }
  DSV4_TRY(ExpectBool(model, "model.", "byte_fallback", false, false));
  return ExpectBool(model, "model.", "ignore_merges", false, false);
}

struct AddedToken {
  std::string_view content;
  int32_t id;
  bool special, normalized;
};

Result<AddedToken> ReadAddedToken(const Value& value, const std::string& where) {
  DSV4_ASSIGN(const Value* const content, ExpectKind(value, where, "content", json::Kind::kString));
  AddedToken token{content->as_string(), 0, false, false};
  DSV4_ASSIGN(token.id, ExpectId(value.Find("id"), where + "id"));
  if (token.content.empty() || token.content.size() > AddedTokens::kMaxBytes) {
    return BadInput("{}content: expected 1 to {} bytes, found {}", where, AddedTokens::kMaxBytes,
                    token.content.size());
  }
  if (!utf8::IsValid(token.content)) {
    return BadInput("{}content: expected text, found a lone surrogate", where);
  }
  for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
    DSV4_TRY(ExpectBool(value, where, key, false, false));
  }
  DSV4_ASSIGN(token.special, BoolOr(value, where, "special", false));
  DSV4_ASSIGN(token.normalized, BoolOr(value, where, "normalized", !token.special));
  return token;
}

using TokenList = std::vector<std::pair<std::string, int32_t>>;

Status CheckDistinct(const TokenList& first, const TokenList& then) {
  std::map<std::string_view, int32_t> seen;
  for (const TokenList* list : {&first, &then}) {
    for (const auto& [content, id] : *list) {
      const auto [place, is_new] = seen.emplace(content, id);
      if (is_new) continue;
      return BadInput("added_tokens: {} has two ids, {} and {}", json::Quote(content),
                      place->second, id);
    }
  }
  return {};
}

}  // namespace

// Fills the tables from the parsed file, which must outlive the loader.
class TokenizerLoader {
 public:
  static Result<Tokenizer> Run(const Value& root);

 private:
  Status ReadVocabulary(const Value& model);
  Status ReadAddedTokens(const Value& root);
  Status CheckAddedId(const AddedToken& token, const std::string& where) const;
  Status PlaceBytes();
  Status ReadMerges(const Value& model);
  static Result<std::pair<std::string_view, std::string_view>> PairOf(const Value& value);
  Result<BytePairs::Merge> ReadMerge(const Value& value) const;
  bool IsAdded(int32_t id) const { return tables_->flags[static_cast<size_t>(id)] != 0; }

  std::unique_ptr<Tokenizer::Tables> tables_ = std::make_unique<Tokenizer::Tables>();
  // Names by id, as the file spells them: those of model.vocab, and those with the added tokens.
  std::vector<std::string_view> vocabulary_;
  std::vector<std::string_view> names_;
  NameIndex index_;  // of vocabulary_
};

Status TokenizerLoader::ReadVocabulary(const Value& model) {
  DSV4_ASSIGN(const Value* const vocabulary,
              ExpectKind(model, "model.", "vocab", json::Kind::kObject));
  const auto& members = vocabulary->members();
  vocabulary_.resize(members.size());
  for (const auto& [name, value] : members) {
    const std::optional<int64_t> id = value.to_int64();
    // Distinct ids below their number leave no gap.
    if (!id || *id < 0 || *id >= static_cast<int64_t>(members.size())) {
      return BadInput("model.vocab[{}]: expected an id from 0 to {}, found {}", json::Quote(name),
                      static_cast<int64_t>(members.size()) - 1, Found(&value));
    }
    if (name.empty()) return BadInput("model.vocab[\"\"]: expected a token, found an empty text");
    std::string_view& place = vocabulary_[static_cast<size_t>(*id)];
    if (!place.empty()) {
      return BadInput("model.vocab[{}]: id {} is that of {} too", json::Quote(name), *id,
                      json::Quote(place));
    }
    place = name;
  }
  index_ = NameIndex(vocabulary_);
  return {};
}

// An added token that the vocabulary has must have its id there; others follow the vocabulary.
Status TokenizerLoader::CheckAddedId(const AddedToken& token, const std::string& where) const {
  const auto num_base = static_cast<int32_t>(vocabulary_.size());
  const auto limit = static_cast<int32_t>(names_.size());
  const int32_t base = index_.Find(token.content);
  const bool right = base >= 0 ? token.id == base : token.id >= num_base && token.id < limit;
  if (!right) {
    return BadInput(
        "{}id: expected {} for {}, found {}", where,
        base >= 0 ? std::to_string(base) : fmt::format("an id from {} to {}", num_base, limit - 1),
        json::Quote(token.content), token.id);
  }
  if (!IsAdded(token.id)) return {};
  return BadInput("{}id: id {} stands twice", where, token.id);
}

Status TokenizerLoader::ReadAddedTokens(const Value& root) {
  names_ = vocabulary_;
  tables_->flags.resize(names_.size());
  if (IsNullOrAbsent(root.Find("added_tokens"))) return {};
  DSV4_ASSIGN(const Value* const list, ExpectKind(root, "", "added_tokens", json::Kind::kArray));
  names_.resize(vocabulary_.size() + list->items().size());
  tables_->flags.resize(names_.size());
  size_t num_tokens = vocabulary_.size();
  TokenList first, then;
  for (size_t i = 0; i < list->items().size(); ++i) {
    const std::string where = fmt::format("added_tokens[{}].", i);
    DSV4_ASSIGN(const AddedToken token, ReadAddedToken(list->items()[i], where));
    DSV4_TRY(CheckAddedId(token, where));
    const auto id = static_cast<size_t>(token.id);
    names_[id] = token.content;
    tables_->flags[id] = static_cast<uint8_t>(kTokenAdded | (token.special ? kTokenSpecial : 0));
    num_tokens += id < vocabulary_.size() ? 0 : 1;
    (token.normalized ? then : first).emplace_back(token.content, token.id);
  }
  for (size_t id = vocabulary_.size(); id < num_tokens; ++id) {
    if (names_[id].empty()) return BadInput("added_tokens: no token has id {}", id);
  }
  names_.resize(num_tokens);
  tables_->flags.resize(num_tokens);
  DSV4_TRY(CheckDistinct(first, then));
  tables_->added_first = AddedTokens(std::move(first));
  tables_->added_then = AddedTokens(std::move(then));
  return {};
}

// Turns names into bytes. Each byte must have its token, and that must not be an added one.
Status TokenizerLoader::PlaceBytes() {
  std::array<int32_t, 256> byte_ids;
  byte_ids.fill(-1);
  tables_->offsets.push_back(0);
  for (size_t id = 0; id < names_.size(); ++id) {
    std::string& bytes = tables_->bytes;
    const size_t begin = bytes.size();
    if (IsAdded(static_cast<int32_t>(id))) {
      bytes += names_[id];
    } else if (!AppendBytesOf(names_[id], bytes)) {
      return BadInput("model.vocab[{}]: expected characters that stand for bytes, found others",
                      json::Quote(names_[id]));
    } else if (bytes.size() == begin + 1) {
      byte_ids[static_cast<uint8_t>(bytes.back())] = static_cast<int32_t>(id);
    }
    if (bytes.size() > std::numeric_limits<uint32_t>::max()) {
      return BadInput("model.vocab: expected less than 4 GiB of tokens, found more");
    }
    tables_->offsets.push_back(static_cast<uint32_t>(bytes.size()));
  }
  for (size_t byte = 0; byte < byte_ids.size(); ++byte) {
    if (byte_ids[byte] >= 0) continue;
    return BadInput("model.vocab: expected a token for every byte, found none for 0x{:02X}", byte);
  }
  tables_->pairs = BytePairs(byte_ids);
  return {};
}

// "a b" or ["a","b"]; the views are into `value`.
Result<std::pair<std::string_view, std::string_view>> TokenizerLoader::PairOf(const Value& value) {
  if (value.is_string()) {
    const std::string_view text = value.as_string();
    const size_t blank = text.find(' ');
    if (blank != std::string_view::npos && text.find(' ', blank + 1) == std::string_view::npos) {
      return std::pair(text.substr(0, blank), text.substr(blank + 1));
    }
  } else if (value.is_array() && value.items().size() == 2 && value.items()[0].is_string() &&
             value.items()[1].is_string()) {
    return std::pair<std::string_view, std::string_view>(value.items()[0].as_string(),
                                                         value.items()[1].as_string());
  }
  return BadInput(R"(expected "a b" or ["a", "b"], found {})", Found(&value));
}

Result<BytePairs::Merge> TokenizerLoader::ReadMerge(const Value& value) const {
  DSV4_ASSIGN(const auto pair, PairOf(value));
  std::string product(pair.first);
  product += pair.second;
  const std::string_view names[] = {pair.first, pair.second, product};
  int32_t ids[3];
  for (size_t i = 0; i < 3; ++i) {
    ids[i] = index_.Find(names[i]);
    if (ids[i] < 0) {
      return BadInput("expected tokens of model.vocab, found {}", json::Quote(names[i]));
    }
    // Else plain text could become an added token.
    if (IsAdded(ids[i])) {
      return BadInput("expected no added token in a merge, found {}", json::Quote(names[i]));
    }
  }
  return BytePairs::Merge{ids[0], ids[1], ids[2]};
}

Status TokenizerLoader::ReadMerges(const Value& model) {
  DSV4_ASSIGN(const Value* const list, ExpectKind(model, "model.", "merges", json::Kind::kArray));
  std::vector<BytePairs::Merge> merges;
  merges.reserve(list->items().size());
  if (list->items().size() >= BytePairs::kMaxIds) {
    return BadInput("model.merges: expected fewer than {}, found {}", BytePairs::kMaxIds,
                    list->items().size());
  }
  for (const Value& value : list->items()) {
    Result<BytePairs::Merge> merge = ReadMerge(value);
    if (!merge) {
      return Within(fmt::format("model.merges[{}]", merges.size()), std::move(merge).error());
    }
    merges.push_back(*merge);
  }
  if (const std::optional<size_t> twice = tables_->pairs.SetMerges(merges)) {
    return BadInput("model.merges[{}]: {} stands twice", *twice, Found(&list->items()[*twice]));
  }
  return {};
}

Result<Tokenizer> TokenizerLoader::Run(const Value& root) {
  if (!root.is_object()) return BadInput("expected an object, found {}", Found(&root));
  DSV4_TRY(CheckRest(root));
  DSV4_ASSIGN(const Value* const model, ExpectKind(root, "", "model", json::Kind::kObject));
  DSV4_TRY(CheckModelOptions(*model));
  TokenizerLoader loader;
  DSV4_TRY(loader.ReadVocabulary(*model));
  DSV4_TRY(loader.ReadAddedTokens(root));
  if (loader.names_.size() >= BytePairs::kMaxIds) {
    return BadInput("model.vocab: expected fewer than {} tokens, found {}", BytePairs::kMaxIds,
                    loader.names_.size());
  }
  DSV4_TRY(loader.PlaceBytes());
  DSV4_TRY(loader.ReadMerges(*model));
  return Tokenizer(std::move(loader.tables_));
}

Result<Tokenizer> Tokenizer::Parse(std::string_view json) {
  DSV4_ASSIGN(const Value root, json::Parse(json));
  return TokenizerLoader::Run(root);
}

Result<Tokenizer> Tokenizer::Load(const std::string& path) {
  DSV4_ASSIGN(const std::string text, ReadFile(path, kMaxFileBytes));
  Result<Tokenizer> tokenizer = Parse(text);
  if (!tokenizer) return Within(path, std::move(tokenizer).error());
  return tokenizer;
}

}  // namespace dsv4
