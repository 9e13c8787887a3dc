#include "tools/bytes_text.h"

#include <fmt/format.h>

#include <iterator>

namespace dsv4::tools {

std::string ScaledText(double value, std::string_view unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t prefix = 0;
  while (value >= 999.95 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000.0;
    ++prefix;
  }
  if (prefix == 0) return fmt::format("{:.4g} {}", value, unit);
  return fmt::format("{:.1f} {}{}", value, kPrefixes[prefix], unit);
}

std::string BytesText(double bytes) { return ScaledText(bytes, "B"); }

}  // namespace dsv4::tools
