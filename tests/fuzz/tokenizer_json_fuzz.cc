// The input up to its first zero byte is taken as a tokenizer.json, and as changes to one that is
// valid; whatever loads then encodes what follows, which must come back.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/utf8.h"
#include "tests/support/small_tokenizer.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using dsv4::AddedTokenText;
using dsv4::Tokenizer;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckEncoding(const Tokenizer& tokenizer, std::string_view bytes) {
  const std::string clean = dsv4::utf8::Sanitize(bytes);
  for (const auto added : {AddedTokenText::kTokens, AddedTokenText::kPlain}) {
    const std::vector<int32_t> ids = tokenizer.Encode(bytes, added);
    Require(tokenizer.Decode(ids, false) == clean);
    dsv4::Detokenizer detokenizer(tokenizer, false);
    std::string joined;
    for (const int32_t id : ids) {
      Require(id >= 0 && id < tokenizer.vocab_size());
      Require(added == AddedTokenText::kTokens || !tokenizer.IsAdded(id));
      joined += detokenizer.Push(id);
    }
    Require(joined + detokenizer.Flush() == clean);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string valid = dsv4::testing::SmallTokenizer().Text();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view file = input.substr(0, zero);
  const std::string_view text = zero == std::string_view::npos ? input : input.substr(zero + 1);
  if (const auto loaded = Tokenizer::Parse(file)) CheckEncoding(*loaded, text);
  // The first two bytes choose a place, the rest goes over what stands there.
  std::string altered = valid;
  if (file.size() > 2) {
    const size_t place = (static_cast<size_t>(data[0]) << 8 | data[1]) % altered.size();
    altered.replace(place, file.size() - 2, file.substr(2));
  }
  if (const auto loaded = Tokenizer::Parse(altered)) CheckEncoding(*loaded, text);
  return 0;
}
