#include "tools/version.h"

#include <CLI/Version.hpp>
#include <fmt/format.h>
#include <openssl/crypto.h>

namespace dsv4::tools {

std::string VersionText() {
  return fmt::format("dsv4 {}\ncompiler: {} {}\nlibraries: fmt {}.{}.{}, CLI11 {}, {}\n", DSV4_VERSION,
#if defined(__clang__)
                     "clang",
#else
                     "g++",
#endif
                     __VERSION__, FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100,
                     CLI11_VERSION, OpenSSL_version(OPENSSL_VERSION));
}

}  // namespace dsv4::tools
