#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace dsv4 {

void CheckFailed(const char* file, int line, const char* condition, std::string_view message) {
  const std::string text =
      fmt::format("{}:{}: check failed: {} {}\n", file, line, condition, message);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace dsv4
