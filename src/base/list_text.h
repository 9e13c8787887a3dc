// Lists in messages.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace dsv4 {

// "a, b, c", at most `at_most` of them, then " and 5 more"; "nothing" where there are none.
inline std::string ListText(std::span<const std::string> items, size_t at_most = SIZE_MAX) {
  if (items.empty()) return "nothing";
  const auto shown = items.first(std::min(items.size(), at_most));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (shown.size() < items.size()) text += fmt::format(" and {} more", items.size() - shown.size());
  return text;
}

}  // namespace dsv4
