// Frequencies and angles of the rotary embedding, with YaRN.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace dsv4 {

struct Yarn {
  double original_seq_len = 0.0;
  double factor = 1.0;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
};

// The width/2 frequencies base^(-2i/width), stretched by YaRN where given. Radians per position.
std::vector<float> RopeFrequencies(int32_t width, double base, const std::optional<Yarn>& yarn);

// cos and sin, [frequencies.size()] each, of the angles fp32(position) * fp32(frequency). The angle
// is the fp32 product; its cosine and sine are those of that fp32 number, rounded once (at a
// million tokens one last bit of the angle is 0.06 rad, so the order of these roundings matters).
void RopeAngles(std::span<const float> frequencies, int64_t position, float* cos, float* sin);

}  // namespace dsv4
