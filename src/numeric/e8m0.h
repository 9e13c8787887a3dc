// E8M0 (UE8M0) scales: one byte e stands for 2^(e-127); 0xFF is NaN. And the rounding of a scale up
// to a power of two.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace dsv4 {

constexpr float DecodeE8m0(uint8_t code) {
  if (code == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;  // subnormal in fp32
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// `value` is a power of two of at least 2^-127 (then exact), infinity or NaN (then 0xFF).
constexpr uint8_t EncodeE8m0(float value) {
  return static_cast<uint8_t>((std::bit_cast<uint32_t>(value) >> 23) & 0xFFu);
}

// The smallest power of two >= value, from the bits: the exponent, plus one where any mantissa bit
// is set. For value >= 0; subnormals give 2^-126, zero gives zero, infinity and NaN stay.
constexpr float Pow2Ceil(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = bits & 0x7F800000u;
  if (exponent == 0x7F800000u) return value;
  return std::bit_cast<float>((bits & 0x007FFFFFu) != 0 ? exponent + 0x00800000u : exponent);
}

}  // namespace dsv4
