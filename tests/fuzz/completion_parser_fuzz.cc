// The first byte chooses the mode, the second where to split; the rest is a completion. Whatever it
// is, the stream comes to the same in one piece, in several and byte by byte, and agrees with the
// strict parser where that succeeds.
#include <cstdint>
#include <random>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "text/completion_stream.h"

namespace {

using namespace dsv4::chat;

struct Outcome {
  ParsedMessage message;
  bool stopped = false;
  bool malformed = false;
  bool operator==(const Outcome&) const = default;
};

// In pieces of 1 to `longest` bytes; in one where that is 0.
Outcome Stream(std::string_view text, Mode mode, size_t longest, uint32_t seed) {
  std::minstd_rand random(seed + 1);
  CompletionStream stream(DeepSeekV4(), mode);
  MessageBuilder builder;
  Outcome outcome;
  int num_finishes = 0;
  const auto add = [&](const std::vector<StreamEvent>& events) {
    for (const StreamEvent& event : events) {
      DSV4_CHECK(dsv4::utf8::IsValid(event.text) && num_finishes == 0);
      builder.Add(event);
      if (event.kind != StreamEvent::Kind::kFinish) continue;
      ++num_finishes;
      outcome.stopped = event.stopped;
      outcome.malformed = event.malformed;
    }
  };
  while (!text.empty()) {
    const size_t length = longest == 0 ? text.size() : 1 + random() % longest;
    add(stream.Feed(text.substr(0, length)));
    text.remove_prefix(std::min(length, text.size()));
  }
  add(stream.Finish());
  DSV4_CHECK(num_finishes == 1);
  outcome.message = builder.message();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Mode mode = (data[0] & 1) != 0 ? Mode::kThinking : Mode::kChat;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Outcome whole = Stream(text, mode, 0, 0);
  DSV4_CHECK(Stream(text, mode, 1, 0) == whole);
  DSV4_CHECK(Stream(text, mode, 1 + data[1] % 32, data[1]) == whole);
  if (const auto strict = ParseCompletion(DeepSeekV4(), text, mode)) {
    DSV4_CHECK(whole.message == *strict && !whole.malformed);
  }
  return 0;
}
