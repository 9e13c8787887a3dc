// Messages in, the prompt's text out: what the DeepSeek family has in place of a template.
// Pure functions; threads may share everything.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_mode.h"
#include "text/text_span.h"
#include "text/wire_dialect.h"

namespace dsv4::chat {

enum class Effort { kNone, kHigh, kMax };

// "none", "high" or "max"; nullopt otherwise.
std::optional<Effort> EffortFromName(std::string_view name);

struct EncodeOptions {
  Mode mode = Mode::kChat;
  Effort effort = Effort::kNone;
  bool drop_thinking = true;  // of turns before the last user message; never where tools are given
  bool add_bos = true;        // where there is no context
};

struct EncodedPrompt {
  std::string text;
  // The control tokens that the encoder wrote itself, one span each, ascending. The text is to be
  // cut at these alone: whatever a caller supplied is plain, even where it spells a control token.
  std::vector<TextSpan> control_spans;
  size_t num_rendered = 0;  // messages
};

// The prompt for `messages` (an array of objects with "role", "content", …) that follow `context`
// (likewise, already in the model's memory; null for none). Errors name the member
// ("messages[3].content"), what was expected and what was found.
Result<EncodedPrompt> Encode(const WireDialect& dialect, const json::Value& messages,
                             const json::Value* context, const EncodeOptions& options);

// The number of bytes at the start of both prompts that surely become the same token ids: up to the
// end of the last control token before which both are alike. Text after it may be cut differently.
size_t StablePrefixBytes(const EncodedPrompt& a, const EncodedPrompt& b);

}  // namespace dsv4::chat
