#include "tools/prompt_file.h"

namespace dsv4::tools {

std::vector<std::string> SplitPrompts(std::string_view text) {
  std::vector<std::string> prompts;
  bool inside = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      inside = false;
    } else if (inside) {
      prompts.back().append("\n").append(line);
    } else {
      prompts.emplace_back(line);
      inside = true;
    }
  }
  return prompts;
}

}  // namespace dsv4::tools
