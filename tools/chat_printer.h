// How an answer looks while it comes.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "service/generation.h"

namespace dsv4::tools {

// Thinking is dimmed, or, without colour, stands between lines <think> and </think>. To a terminal,
// control characters of the model's text are shown as U+FFFD, so that it cannot drive the terminal.
class ChatPrinter {
 public:
  struct Style {
    bool terminal = false;
    bool color = false;
  };
  // For standard output: colour on a terminal that takes it unless NO_COLOR is set.
  static Style ForStandardOutput();

  ChatPrinter(std::FILE* out, Style style) : out_(out), style_(style) {}

  // Prints what an event shows and flushes.
  void Print(const service::GenerationEvent& event);

 private:
  enum class Part { kNone, kReasoning, kContent, kCall };

  void Enter(Part part);
  void Write(std::string_view text);
  void EndLine();

  std::FILE* const out_;
  const Style style_;
  Part part_ = Part::kNone;
  bool at_line_start_ = true;
};

// `text` with control characters but line feed and tab replaced by U+FFFD.
std::string WithoutControls(std::string_view text);

}  // namespace dsv4::tools
