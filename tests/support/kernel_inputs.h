// Inputs of kernel checks and tests.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "numeric/bf16.h"

namespace dsv4::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline std::vector<float> RandomFloats(int64_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(normal(rng) * spread);
  return x;
}

inline std::vector<Bf16> RandomBf16(int64_t n, uint32_t seed, float spread = 1.0f) {
  std::vector<Bf16> x;
  for (const float value : RandomFloats(n, seed, spread)) x.push_back(ToBf16(value));
  return x;
}

inline std::vector<std::byte> RandomBytes(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(n));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  return bytes;
}

// Every bf16 there is, in blocks: neighbours share an exponent.
inline std::vector<Bf16> AllBf16() {
  std::vector<Bf16> x;
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) x.push_back(Bf16{static_cast<uint16_t>(bits)});
  return x;
}

// Runs of values of widely different size, with the specials among them.
inline std::vector<Bf16> WildBf16(int64_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<Bf16> x = RandomBf16(n, seed);
  const float specials[] = {kNan, -kNan, kInf, -kInf, 0.0f, -0.0f, 1e-40f, -3e38f, 448.0f, 0.25f};
  for (size_t i = 0; i < x.size(); ++i) {
    if (i / 97 % 3 == 1)
      x[i] = ToBf16(ToFloat(x[i]) * std::ldexp(1.0f, static_cast<int>(i % 50) - 40));
    if (rng() % 61 == 0) x[i] = ToBf16(specials[rng() % std::size(specials)]);
  }
  return x;
}

}  // namespace dsv4::test
