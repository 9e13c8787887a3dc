// FP4 E2M1: codes 0..7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign. No infinities, no NaN.
// Two codes to a byte, the even element in the low nibble.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace dsv4 {

inline constexpr float kE2m1Max = 6.0f;

inline constexpr std::array<float, 16> kE2m1Values = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,
                                                      4.0f,  6.0f,  -0.0f, -0.5f, -1.0f, -1.5f,
                                                      -2.0f, -3.0f, -4.0f, -6.0f};

// Only the low four bits count.
constexpr float DecodeE2m1(uint8_t code) { return kE2m1Values[code & 0xFu]; }

// To nearest, ties to even; beyond ±6 clamps to ±6. Keeps the sign of zero. The format has no NaN:
// NaN becomes ±6.
constexpr uint8_t EncodeE2m1(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 28) & 0x8u;
  const float magnitude = std::bit_cast<float>(bits & 0x7FFFFFFFu);
  // Half way between neighbours goes to the even code: down at 0.25, 1.25, 2.5 and 5.
  const uint32_t code = magnitude <= 0.25f   ? 0u
                        : magnitude < 0.75f  ? 1u
                        : magnitude <= 1.25f ? 2u
                        : magnitude < 1.75f  ? 3u
                        : magnitude <= 2.5f  ? 4u
                        : magnitude < 3.5f   ? 5u
                        : magnitude <= 5.0f  ? 6u
                                             : 7u;
  return static_cast<uint8_t>(sign | code);
}

}  // namespace dsv4
