#include "text/tokenizer.h"

#include "base/check.h"
#include "base/utf8.h"
#include "text/piece_cache.h"
#include "text/pretokenizer.h"
#include "text/tokenizer_tables.h"

namespace dsv4 {
namespace {

// `text` itself where it is UTF-8, else its replacement, kept in `storage`.
std::string_view AsUtf8(std::string_view text, std::string& storage) {
  if (utf8::IsValid(text)) return text;
  storage = utf8::Sanitize(text);
  return storage;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Tables> tables) : tables_(std::move(tables)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

// One text being encoded.
struct Tokenizer::Encoding {
  explicit Encoding(size_t text_bytes) : cache(text_bytes) { ids.reserve(text_bytes / 3 + 8); }

  std::vector<int32_t> ids;
  PieceCache cache;
};

void Tokenizer::EncodePlain(std::string_view text, Encoding& encoding) const {
  std::vector<int32_t>& ids = encoding.ids;
  Pretokenizer pieces(text);
  for (std::string_view piece = pieces.Next(); !piece.empty(); piece = pieces.Next()) {
    PieceCache::Slot& slot = encoding.cache.SlotOf(piece);
    if (slot.Holds(piece)) {
      ids.insert(ids.end(), slot.ids().begin(), slot.ids().end());
    } else {
      const size_t begin = ids.size();
      tables_->pairs.Encode(piece, ids);
      slot.Set(piece, std::span(ids).subspan(begin));
    }
  }
}

void Tokenizer::EncodeAround(const AddedTokens& added, const AddedTokens* then,
                             std::string_view text, Encoding& encoding) const {
  for (size_t at = 0; at < text.size();) {
    const AddedTokens::Match match = added.Find(text, at);
    const std::string_view stretch = text.substr(at, match.span.begin - at);
    if (then != nullptr) {
      EncodeAround(*then, nullptr, stretch, encoding);
    } else {
      EncodePlain(stretch, encoding);
    }
    if (match.id >= 0) encoding.ids.push_back(match.id);
    at = match.span.end;
  }
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, AddedTokenText added) const {
  std::string storage;
  text = AsUtf8(text, storage);
  Encoding encoding(text.size());
  if (added == AddedTokenText::kPlain) {
    EncodePlain(text, encoding);
  } else {
    EncodeAround(tables_->added_first, &tables_->added_then, text, encoding);
  }
  return std::move(encoding.ids);
}

Result<std::vector<int32_t>> Tokenizer::EncodeWithSpans(std::string_view text,
                                                        std::span<const TextSpan> spans) const {
  Encoding encoding(text.size());
  std::string storage;
  size_t at = 0;
  for (const TextSpan& span : spans) {
    DSV4_CHECK(at <= span.begin && span.begin <= span.end && span.end <= text.size(),
               "span {}-{} after byte {} of {}", span.begin, span.end, at, text.size());
    const std::string_view content = text.substr(span.begin, span.end - span.begin);
    const std::optional<int32_t> id = FindAdded(content);
    if (!id) return BadInput("tokenizer: expected an added token '{}', found none", content);
    // A token begins with no continuation byte, so replacing stretch by stretch is replacing at
    // once.
    EncodePlain(AsUtf8(text.substr(at, span.begin - at), storage), encoding);
    encoding.ids.push_back(*id);
    at = span.end;
  }
  EncodePlain(AsUtf8(text.substr(at), storage), encoding);
  return std::move(encoding.ids);
}

std::string Tokenizer::DecodeBytes(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!skip_special || !IsSpecial(id)) bytes += TokenBytes(id);
  }
  return bytes;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  return utf8::Sanitize(DecodeBytes(ids, skip_special));
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(tables_->flags.size()); }

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const auto index = static_cast<size_t>(id);
  const uint32_t begin = tables_->offsets[index];
  return std::string_view(tables_->bytes).substr(begin, tables_->offsets[index + 1] - begin);
}

bool Tokenizer::IsAdded(int32_t id) const {
  return id >= 0 && id < vocab_size() &&
         (tables_->flags[static_cast<size_t>(id)] & kTokenAdded) != 0;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() &&
         (tables_->flags[static_cast<size_t>(id)] & kTokenSpecial) != 0;
}

std::optional<int32_t> Tokenizer::FindAdded(std::string_view content) const {
  for (const AddedTokens* added : {&tables_->added_first, &tables_->added_then}) {
    if (const int32_t id = added->IdOf(content); id >= 0) return id;
  }
  return std::nullopt;
}

}  // namespace dsv4
