// SHA-256 for tests, as 64 hex digits.
#pragma once

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dsv4::testing {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) std::abort();
  }

  void Update(std::span<const std::byte> bytes) {
    if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) std::abort();
  }

  std::string Hex() {
    std::array<unsigned char, 32> digest{};
    if (EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) != 1) std::abort();
    return fmt::format("{:02x}", fmt::join(digest, ""));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

inline std::string Sha256Of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Hex();
}
inline std::string Sha256Of(std::string_view text) {
  return Sha256Of(std::as_bytes(std::span(text)));
}

}  // namespace dsv4::testing
