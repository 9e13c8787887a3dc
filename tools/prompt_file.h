#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dsv4::tools {

// Prompts with blank lines (nothing but spaces, tabs and carriage returns) between them. The line
// ends around a prompt are not part of it, those inside are.
std::vector<std::string> SplitPrompts(std::string_view text);

}  // namespace dsv4::tools
