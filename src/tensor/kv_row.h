// The stored form of window rows, compressed entries and index keys. They are kept as they are
// used: the model quantises them in place, so the packed form loses nothing.
#pragma once

#include <cstdint>

namespace dsv4 {

// One row of `width` channels whose last `rope_width` are rotary:
//   (width - rope_width) E4M3 codes | rope_width bf16 | one E8M0 scale per 64 codes | zero fill
//   to 8.
// 512 channels: 448 + 128 + 7 + 1 = 584 bytes. `packed` false: width bf16 values instead.
struct KvRowLayout {
  int32_t width = 0;
  int32_t rope_width = 0;
  bool packed = true;

  static constexpr int32_t kBlock = 64;  // channels per scale
  constexpr int32_t num_codes() const { return width - rope_width; }
  constexpr int32_t rope_offset() const { return num_codes(); }
  constexpr int32_t scale_offset() const { return num_codes() + 2 * rope_width; }
  constexpr int64_t row_bytes() const {
    return packed ? (scale_offset() + num_codes() / kBlock + 7) / 8 * 8 : int64_t{2} * width;
  }
};

// One index key (or index query head) of `width` channels:
//   width/2 bytes of E2M1 codes, low nibble first | one E8M0 scale per 32 channels.
struct IndexRowLayout {
  int32_t width = 0;

  static constexpr int32_t kBlock = 32;  // channels per scale
  constexpr int32_t scale_offset() const { return width / 2; }
  constexpr int64_t row_bytes() const { return width / 2 + width / kBlock; }
};

}  // namespace dsv4
