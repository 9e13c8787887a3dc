#include "tools/version.h"

#include <fmt/format.h>
#include <histedit.h>
#include <openssl/crypto.h>
#include <rapidjson/rapidjson.h>
#include <xxhash.h>

#include <CLI/Version.hpp>

#include "kernels/dispatch.h"
#include "tools/kernel_choice.h"

namespace dsv4::tools {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "clang " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

std::string KernelsText() {
  std::string runnable;
  for (const kernels::Kernels* set : kernels::Runnable()) {
    runnable += fmt::format("{}{}", runnable.empty() ? "" : " ", set->name);
  }
  const Result<const kernels::Kernels*> chosen = KernelsFromEnvironment();
  return fmt::format("{} (runs here: {})", chosen ? (*chosen)->name : chosen.error().message,
                     runnable);
}

}  // namespace

std::string VersionText() {
  return fmt::format(
      "dsv4 {}\n"
      "compiler: {}\n"
      "kernels: {}\n"
      "libraries: fmt {}.{}.{}, CLI11 {}, RapidJSON {}, libedit {}.{}, xxHash {}.{}.{}, {}\n",
      DSV4_VERSION, kCompiler, KernelsText(), FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
      FMT_VERSION % 100, CLI11_VERSION, RAPIDJSON_VERSION_STRING, LIBEDIT_MAJOR, LIBEDIT_MINOR,
      XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE, OpenSSL_version(OPENSSL_VERSION));
}

}  // namespace dsv4::tools
