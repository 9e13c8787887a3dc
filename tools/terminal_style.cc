#include "tools/terminal_style.h"

#include <cstdlib>
#include <string_view>

namespace dsv4::tools {

bool TerminalTakesEscapes() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::string_view(term) != "dumb";
}

bool ColorIsWelcome() {
  const char* no_color = std::getenv("NO_COLOR");
  return TerminalTakesEscapes() && (no_color == nullptr || *no_color == '\0');
}

}  // namespace dsv4::tools
