// Text to token ids and back, as the published tokenizer.json of the DeepSeek-V4 family says: added
// tokens are cut out, each stretch between them is split into pieces (pretokenizer.h), the bytes of
// each piece are merged (byte_pairs.h). No BOS is ever added. Immutable: any number of threads at
// once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_span.h"

namespace dsv4 {

class AddedTokens;

// What strings such as "<｜User｜>" or "<think>" in a text are.
enum class AddedTokenText {
  kTokens,  // the tokens they spell, as the published reference takes them
  kPlain,   // ordinary text: no id of an added token comes out
};

class Tokenizer {
 public:
  // Reads tokenizer.json; no other file is needed. Whatever in it would need code that is not here
  // (another model, pattern, normalizer, …) is refused by name; nothing is guessed.
  static Result<Tokenizer> Load(const std::string& path);
  static Result<Tokenizer> Parse(std::string_view json);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Bytes that are no UTF-8 are replaced first (utf8::Sanitize). Linear but for a logarithm.
  std::vector<int32_t> Encode(std::string_view text, AddedTokenText added) const;

  // The text is cut only at `spans` (in order, disjoint), each of which must spell an added token;
  // what lies between is plain, one run each. An error names a span that spells none.
  Result<std::vector<int32_t>> EncodeWithSpans(std::string_view text,
                                               std::span<const TextSpan> spans) const;

  // The tokens' bytes joined; with `skip_special` without those marked special (not all added
  // tokens are: "<think>" is not). Ids outside the vocabulary add nothing.
  std::string DecodeBytes(std::span<const int32_t> ids, bool skip_special) const;
  // The same made UTF-8 once, over the whole (utf8::Sanitize).
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;

  // Ids are 0 … vocab_size() - 1, without a gap.
  int32_t vocab_size() const;
  // Empty where the id is outside the vocabulary. A token alone need not be valid UTF-8.
  std::string_view TokenBytes(int32_t id) const;
  bool IsAdded(int32_t id) const;
  bool IsSpecial(int32_t id) const;
  // The id of the added token that `content` spells.
  std::optional<int32_t> FindAdded(std::string_view content) const;

 private:
  friend class TokenizerLoader;
  struct Tables;
  struct Encoding;

  explicit Tokenizer(std::unique_ptr<const Tables> tables);
  // `text` is valid UTF-8; both append to what is encoded.
  void EncodePlain(std::string_view text, Encoding& encoding) const;
  void EncodeAround(const AddedTokens& added, const AddedTokens* then, std::string_view text,
                    Encoding& encoding) const;

  std::unique_ptr<const Tables> tables_;
};

}  // namespace dsv4
