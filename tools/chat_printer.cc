#include "tools/chat_printer.h"

#include <unistd.h>

#include "base/utf8.h"
#include "tools/terminal_style.h"

namespace dsv4::tools {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kReset = "\033[0m";

bool IsControl(char32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
}

}  // namespace

std::string WithoutControls(std::string_view text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const utf8::Decoded c = utf8::DecodeAt(text, at);
    utf8::Append(shown, IsControl(c.code_point) ? utf8::kReplacement : c.code_point);
    at += static_cast<size_t>(c.length);
  }
  return shown;
}

ChatPrinter::Style ChatPrinter::ForStandardOutput() {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  return {terminal, terminal && ColorIsWelcome()};
}

void ChatPrinter::Print(const service::GenerationEvent& event) {
  using Kind = service::GenerationEvent::Kind;
  switch (event.kind) {
    case Kind::kToken:
      return;
    case Kind::kReasoning:
      Enter(Part::kReasoning);
      Write(event.text);
      break;
    case Kind::kContent:
      Enter(Part::kContent);
      Write(event.text);
      break;
    case Kind::kCallStart:
      Enter(Part::kCall);
      Write("[call " + event.text + " ");
      break;
    case Kind::kArguments:
      Write(event.text);
      break;
    case Kind::kCallEnd:
      Write("]\n");
      break;
    case Kind::kFinish:
      Enter(Part::kNone);
      EndLine();
      at_line_start_ = true;
      break;
  }
  std::fflush(out_);
}

void ChatPrinter::Enter(Part part) {
  if (part == part_) return;
  if (part_ == Part::kReasoning) {
    if (style_.color) std::fwrite(kReset.data(), 1, kReset.size(), out_);
    EndLine();
    if (!style_.color) Write("</think>\n");
  }
  if (part == Part::kReasoning) {
    if (style_.color) {
      std::fwrite(kDim.data(), 1, kDim.size(), out_);
    } else {
      Write("<think>\n");
    }
  }
  if (part == Part::kCall) EndLine();
  part_ = part;
}

void ChatPrinter::Write(std::string_view text) {
  if (text.empty()) return;
  const std::string shown = style_.terminal ? WithoutControls(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), out_);
  at_line_start_ = shown.ends_with('\n');
}

void ChatPrinter::EndLine() {
  if (!at_line_start_) Write("\n");
}

}  // namespace dsv4::tools
