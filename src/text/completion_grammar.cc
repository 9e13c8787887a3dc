#include "text/completion_grammar.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace dsv4::chat {
namespace {

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

}  // namespace

Scan ScanFor(std::span<const std::string_view> markers, std::string_view text) {
  std::array<bool, 256> is_first{};
  for (const std::string_view marker : markers) is_first[static_cast<uint8_t>(marker[0])] = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_first[static_cast<uint8_t>(text[i])]) continue;
    const std::string_view rest = text.substr(i);
    for (const std::string_view& marker : markers) {
      if (rest.starts_with(marker)) return {i, &marker};
      if (marker.starts_with(rest)) return {i, nullptr};
    }
  }
  return {text.size(), nullptr};
}

size_t SpaceRun(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const utf8::Decoded decoded = utf8::DecodeAt(text, end);
    if (!decoded.valid || !IsSpace(decoded.code_point)) break;
    end += static_cast<size_t>(decoded.length);
  }
  return end;
}

std::optional<std::string_view> InvokeNameOf(const WireDialect& dialect, std::string_view head,
                                             bool parameter_follows) {
  head.remove_prefix(SpaceRun(head));
  if (!head.starts_with(dialect.name_head)) return std::nullopt;
  head.remove_prefix(dialect.name_head.size());
  // A call without parameters has an empty line in their place.
  if (!parameter_follows && head.ends_with("\n\n")) head.remove_suffix(1);
  if (!head.ends_with(kNameTail)) return std::nullopt;
  head.remove_suffix(kNameTail.size());
  return head;
}

}  // namespace dsv4::chat
