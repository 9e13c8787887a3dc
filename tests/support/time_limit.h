// Limits of time in tests.
#pragma once

#include <chrono>

namespace dsv4::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr double kSlowdown = 30;  // of a build with sanitizers, at most
#else
inline constexpr double kSlowdown = 1;
#endif

// What a build for use must do within `seconds`.
inline std::chrono::duration<double> Within(double seconds) {
  return std::chrono::duration<double>(seconds * kSlowdown);
}

}  // namespace dsv4::test
