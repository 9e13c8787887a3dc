// FP8 E4M3FN: 4 exponent bits (bias 7), 3 mantissa bits, no infinities; 0x7F and 0xFF are NaN.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace dsv4 {

inline constexpr float kE4m3Max = 448.0f;
inline constexpr int kE4m3MantissaBits = 3;

// Every value is exact in bf16 and in fp32.
constexpr float DecodeE4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  if (magnitude < 8) {  // subnormal: a multiple of 2^-9
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
}

// To nearest, ties to even; beyond ±448 clamps to ±448; NaN gives NaN. Keeps the sign of zero.
constexpr uint8_t EncodeE4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint8_t>(sign | 0x7Fu);
  if (magnitude >= std::bit_cast<uint32_t>(kE4m3Max)) return static_cast<uint8_t>(sign | 0x7Eu);
  if (magnitude < std::bit_cast<uint32_t>(0x1p-6f)) {
    // One unit in the last place of 2^14 is 2^-9, the step of the subnormals: the sum rounds.
    const float rounded = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(
        sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0x1p14f)));
  }
  const uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

// The value of every code.
inline constexpr std::array<float, 256> kE4m3Values = [] {
  std::array<float, 256> values{};
  for (unsigned code = 0; code < 256; ++code) {
    values[code] = DecodeE4m3(static_cast<uint8_t>(code));
  }
  return values;
}();

}  // namespace dsv4
