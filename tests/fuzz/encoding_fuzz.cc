// The first byte chooses the options; the rest is a JSON array of messages, or an object with
// "messages" and "context": refused, or a prompt whose spans hold nothing a caller wrote.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "text/chat_encoding.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dsv4;
  if (size == 0) return 0;
  const chat::EncodeOptions options = {
      .mode = (data[0] & 1) != 0 ? chat::Mode::kThinking : chat::Mode::kChat,
      .effort = (data[0] & 2) != 0 ? chat::Effort::kMax : chat::Effort::kNone,
      .drop_thinking = (data[0] & 4) == 0,
      .add_bos = (data[0] & 8) == 0};
  const Result<json::Value> input =
      json::Parse({reinterpret_cast<const char*>(data) + 1, size - 1});
  if (!input) return 0;
  const json::Value* messages = input->Find("messages");
  const chat::WireDialect& dialect = chat::DeepSeekV4();
  const auto prompt = chat::Encode(dialect, messages == nullptr ? *input : *messages,
                                   input->Find("context"), options);
  if (!prompt) {
    DSV4_CHECK(!prompt.error().message.empty());
    return 0;
  }
  DSV4_CHECK(utf8::IsValid(prompt->text));
  size_t end = 0;
  for (const TextSpan& span : prompt->control_spans) {
    DSV4_CHECK(end <= span.begin && span.begin < span.end && span.end <= prompt->text.size());
    const std::string_view token =
        std::string_view(prompt->text).substr(span.begin, span.end - span.begin);
    DSV4_CHECK(std::count(dialect.control_tokens.begin(), dialect.control_tokens.end(), token) ==
               1);
    end = span.end;
  }
  DSV4_CHECK(chat::StablePrefixBytes(*prompt, *prompt) == end);
  return 0;
}
