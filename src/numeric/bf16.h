// bfloat16: the upper half of a float. Rounding is to nearest even; NaN stays NaN (quiet).
#pragma once

#include <bit>
#include <cstdint>

namespace dsv4 {

struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(Bf16, Bf16) = default;  // of the bits, so -0 != +0 and NaN == NaN
};

inline float ToFloat(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

inline Bf16 ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
    return Bf16{static_cast<uint16_t>((bits >> 16) | 0x0040u)};
  }
  return Bf16{static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

// The value after a trip through bfloat16.
inline float RoundToBf16(float value) { return ToFloat(ToBf16(value)); }

}  // namespace dsv4
