// DSV4_CHECK(condition, "format", args…): what only our own mistake can break. Prints where and
// why, then aborts. Never for bad input: that is a Result (result.h).
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace dsv4 {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              std::string_view message);

}  // namespace dsv4

#define DSV4_CHECK(condition, ...)                                                        \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      ::dsv4::CheckFailed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                     \
  } while (false)
