// What the strict and the streaming completion parser share.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "text/wire_dialect.h"

namespace dsv4::chat {

// What stands after the beginning of a tag, and after the name in an invoke's head.
inline constexpr std::string_view kItemEnd = ">\n";
inline constexpr std::string_view kNameTail = "\">\n";

// How much of a text is surely no marker, and which of the markers comes then.
struct Scan {
  size_t text_end;
  const std::string_view* marker;  // null: none, or one that the text's end cuts off
};
// One pass, whichever of the markers is rare. None may begin another.
Scan ScanFor(std::span<const std::string_view> markers, std::string_view text);

// Bytes of the white space (as Python's \s) at the start of `text`.
size_t SpaceRun(std::string_view text);

// The name in an invoke's head: what stands between invoke_open and the first parameter or, where
// none follows, invoke_close. nullopt where it is not well formed.
std::optional<std::string_view> InvokeNameOf(const WireDialect& dialect, std::string_view head,
                                             bool parameter_follows);

}  // namespace dsv4::chat
