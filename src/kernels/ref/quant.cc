// Quantisation of activations and of cache rows.
// NaN: the element alone becomes NaN (in FP4 ±6) and counts for nothing in its block's scale.
// Infinity: the scale is infinite, and the in-place form of the whole block is NaN.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/ref/ref.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace dsv4::kernels::ref {
namespace {

constexpr float kE2m1MinAmax = 0x1.8p-124f;  // 6 * 2^-126

float MaxMagnitude(const Bf16* x, int64_t n, float at_least) {
  float amax = at_least;
  for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::fabs(ToFloat(x[i])));
  return amax;
}

// Calls visit(row, first column, number of columns) for every block.
template <class Visit>
void ForEachBlock(int64_t num_rows, int64_t cols, int32_t block, Visit visit) {
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t begin = 0; begin < cols; begin += block) {
      visit(row, begin, std::min<int64_t>(block, cols - begin));
    }
  }
}

}  // namespace

float ScaleOfAmax(float amax, ActScale scale) {
  const float exact = amax * (1.0f / kE4m3Max);
  return scale == ActScale::kPowerOfTwo ? Pow2Ceil(exact) : exact;
}

float BlockScale(const Bf16* x, int64_t n, ActScale scale) {
  return ScaleOfAmax(MaxMagnitude(x, n, kE4m3MinAmax), scale);
}

void ActQuant(const Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale,
              uint8_t* codes, float* scales) {
  ForEachBlock(num_rows, cols, block, [&](int64_t row, int64_t begin, int64_t n) {
    const int64_t at = row * cols + begin;
    const float block_scale = BlockScale(x + at, n, scale);
    for (int64_t i = at; i < at + n; ++i) codes[i] = EncodeE4m3(ToFloat(x[i]) / block_scale);
    *scales++ = block_scale;
  });
}

void ActQuantInPlace(Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale) {
  ForEachBlock(num_rows, cols, block, [&](int64_t row, int64_t begin, int64_t n) {
    Bf16* const values = x + row * cols + begin;
    const float block_scale = BlockScale(values, n, scale);
    for (int64_t i = 0; i < n; ++i) {
      values[i] = ToBf16(kE4m3Values[EncodeE4m3(ToFloat(values[i]) / block_scale)] * block_scale);
    }
  });
}

void PackIndexRows(const Bf16* x, int64_t num_rows, IndexRowLayout layout, std::byte* packed) {
  DSV4_CHECK(layout.width % IndexRowLayout::kBlock == 0, "index width {}", layout.width);
  ForEachBlock(
      num_rows, layout.width, IndexRowLayout::kBlock, [&](int64_t row, int64_t begin, int64_t n) {
        const Bf16* const values = x + row * layout.width + begin;
        std::byte* const out = packed + row * layout.row_bytes();
        const float scale = Pow2Ceil(MaxMagnitude(values, n, kE2m1MinAmax) * (1.0f / kE2m1Max));
        for (int64_t i = 0; i < n; i += 2) {
          const uint8_t even = EncodeE2m1(ToFloat(values[i]) / scale);
          const uint8_t odd = EncodeE2m1(ToFloat(values[i + 1]) / scale);
          out[(begin + i) / 2] = static_cast<std::byte>(even | (odd << 4));
        }
        out[layout.scale_offset() + begin / n] = static_cast<std::byte>(EncodeE8m0(scale));
      });
}

void DecodeIndexRow(const std::byte* packed, IndexRowLayout layout, float* x) {
  for (int32_t begin = 0; begin < layout.width; begin += IndexRowLayout::kBlock) {
    const float scale = DecodeE8m0(
        std::to_integer<uint8_t>(packed[layout.scale_offset() + begin / IndexRowLayout::kBlock]));
    for (int32_t i = begin; i < begin + IndexRowLayout::kBlock; i += 2) {
      const uint8_t codes = std::to_integer<uint8_t>(packed[i / 2]);
      x[i] = DecodeE2m1(codes) * scale;
      x[i + 1] = DecodeE2m1(static_cast<uint8_t>(codes >> 4)) * scale;
    }
  }
}

void UnpackIndexRows(const std::byte* packed, int64_t num_rows, IndexRowLayout layout, Bf16* x) {
  for (int64_t row = 0; row < num_rows; ++row, packed += layout.row_bytes()) {
    for (int32_t i = 0; i < layout.width; ++i, ++x) {
      const float scale = DecodeE8m0(
          std::to_integer<uint8_t>(packed[layout.scale_offset() + i / IndexRowLayout::kBlock]));
      const uint8_t codes = std::to_integer<uint8_t>(packed[i / 2]);
      *x = ToBf16(DecodeE2m1(static_cast<uint8_t>(codes >> (i % 2 * 4))) * scale);
    }
  }
}

void PackKvRows(const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed) {
  constexpr int32_t kBlock = KvRowLayout::kBlock;
  DSV4_CHECK(layout.num_codes() % kBlock == 0, "row width {}, rotary {}", layout.width,
             layout.rope_width);
  for (int64_t row = 0; row < num_rows; ++row, x += layout.width, packed += layout.row_bytes()) {
    const size_t rope_bytes = static_cast<size_t>(layout.rope_width) * sizeof(Bf16);
    if (layout.packed) std::memset(packed, 0, static_cast<size_t>(layout.row_bytes()));
    for (int32_t begin = 0; begin < layout.num_codes(); begin += kBlock) {
      uint8_t codes[kBlock];
      float scale;
      ActQuant(x + begin, 1, kBlock, kBlock, ActScale::kPowerOfTwo, codes, &scale);
      if (layout.packed) {
        std::memcpy(packed + begin, codes, kBlock);
        packed[layout.scale_offset() + begin / kBlock] = static_cast<std::byte>(EncodeE8m0(scale));
      } else {
        Bf16 values[kBlock];
        for (int i = 0; i < kBlock; ++i) values[i] = ToBf16(kE4m3Values[codes[i]] * scale);
        std::memcpy(packed + begin * 2, values, sizeof(values));
      }
    }
    std::memcpy(packed + layout.rope_offset() * (layout.packed ? 1 : 2), x + layout.rope_offset(),
                rope_bytes);
  }
}

void DecodeKvRow(const std::byte* packed, KvRowLayout layout, float* x) {
  constexpr int32_t kBlock = KvRowLayout::kBlock;
  int32_t bf16_begin = 0;
  if (layout.packed) {
    bf16_begin = layout.num_codes();
    for (int32_t begin = 0; begin < bf16_begin; begin += kBlock) {
      const float scale =
          DecodeE8m0(std::to_integer<uint8_t>(packed[layout.scale_offset() + begin / kBlock]));
      for (int32_t i = begin; i < begin + kBlock; ++i) {
        x[i] = kE4m3Values[std::to_integer<uint8_t>(packed[i])] * scale;
      }
    }
    packed += bf16_begin;
  }
  for (int32_t i = bf16_begin; i < layout.width; ++i, packed += sizeof(Bf16)) {
    Bf16 value;
    std::memcpy(&value, packed, sizeof(value));
    x[i] = ToFloat(value);
  }
}

void UnpackKvRows(const std::byte* packed, int64_t num_rows, KvRowLayout layout, Bf16* x) {
  constexpr int32_t kBlock = KvRowLayout::kBlock;
  for (int64_t row = 0; row < num_rows; ++row, x += layout.width, packed += layout.row_bytes()) {
    if (!layout.packed) {
      std::memcpy(x, packed, static_cast<size_t>(layout.row_bytes()));
      continue;
    }
    for (int32_t i = 0; i < layout.num_codes(); ++i) {
      const float scale =
          DecodeE8m0(std::to_integer<uint8_t>(packed[layout.scale_offset() + i / kBlock]));
      x[i] = ToBf16(kE4m3Values[std::to_integer<uint8_t>(packed[i])] * scale);
    }
    std::memcpy(x + layout.rope_offset(), packed + layout.rope_offset(),
                static_cast<size_t>(layout.rope_width) * sizeof(Bf16));
  }
}

}  // namespace dsv4::kernels::ref
