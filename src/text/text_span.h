#pragma once

#include <cstddef>

namespace dsv4 {

// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin;
  size_t end;
  bool operator==(const TextSpan&) const = default;
};

}  // namespace dsv4
