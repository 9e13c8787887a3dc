// What the strict and the streaming completion parser share.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/chat_format.h"

namespace dsv4::chat {

// The markers of a calls block, as far as they decide; what must follow each is on its line.
inline constexpr std::string_view kBlockOpen = "\n\n<｜DSML｜tool_calls";  // >, newline
inline constexpr std::string_view kBlockClose = "</｜DSML｜tool_calls>";   // EOS
inline constexpr std::string_view kInvokeOpen = "<｜DSML｜invoke";         // the head
inline constexpr std::string_view kInvokeClose = "</｜DSML｜invoke";       // >, newline
inline constexpr std::string_view kParameterOpen = "<｜DSML｜parameter";   // its name
inline constexpr std::string_view kParameterClose = "/｜DSML｜parameter";  // >, newline
inline constexpr std::string_view kParameterNameHead = " name=\"";
inline constexpr std::string_view kItemEnd = ">\n";
inline constexpr std::string_view kNameHead = "name=\"";
inline constexpr std::string_view kNameTail = "\">\n";

// May stand neither in content nor in reasoning.
inline constexpr std::array<std::string_view, 5> kForbidden = {kBos, kEos, kThinkStart, kThinkEnd,
                                                               kDsml};

// How much of a text is surely no marker, and which of the markers comes then.
struct Scan {
  size_t text_end;
  const std::string_view* marker;  // null: none, or one that the text's end cuts off
};
// One pass, whichever of the markers is rare. None may hold the beginning of another.
Scan ScanFor(std::span<const std::string_view> markers, std::string_view text);

// Bytes of the white space (as Python's \s) at the start of `text`.
size_t SpaceRun(std::string_view text);

// The name in an invoke's head: what stands between kInvokeOpen and the first parameter or, where
// none follows, kInvokeClose. nullopt where it is not well formed.
std::optional<std::string_view> InvokeNameOf(std::string_view head, bool parameter_follows);

}  // namespace dsv4::chat
