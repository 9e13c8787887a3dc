// Sums over K in 16 explicit fp32 lanes: element k of a block goes to lane k mod 16, and one fixed
// tree adds the lanes. The order is written out, so the bits do not depend on the compiler or its
// options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "numeric/bf16.h"

namespace dsv4::kernels::ref {

inline constexpr int kLanes = 16;

// Four fp32 values; GCC and Clang lower this to whatever the target has.
using Float4 = float __attribute__((vector_size(16)));

// No alignment is demanded of p.
inline Float4 LoadFloat4(const void* p) {
  Float4 value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}
inline void StoreFloat4(Float4 value, float* p) { std::memcpy(p, &value, sizeof(value)); }

struct Lanes {
  float lane[kLanes] = {};

  // lane[k mod 16] += a[k] * b[k]. All calls of one block but the last have n a multiple of 16.
  // b points to floats and need not be aligned.
  void Add(const float* a, const void* b, int64_t n) {
    Float4 s0 = LoadFloat4(lane), s1 = LoadFloat4(lane + 4);
    Float4 s2 = LoadFloat4(lane + 8), s3 = LoadFloat4(lane + 12);
    const auto* p = static_cast<const std::byte*>(b);
    int64_t k = 0;
    for (; k + kLanes <= n; k += kLanes, p += kLanes * sizeof(float)) {
      s0 += LoadFloat4(a + k) * LoadFloat4(p);
      s1 += LoadFloat4(a + k + 4) * LoadFloat4(p + 16);
      s2 += LoadFloat4(a + k + 8) * LoadFloat4(p + 32);
      s3 += LoadFloat4(a + k + 12) * LoadFloat4(p + 48);
    }
    StoreFloat4(s0, lane);
    StoreFloat4(s1, lane + 4);
    StoreFloat4(s2, lane + 8);
    StoreFloat4(s3, lane + 12);
    for (int64_t i = 0; k + i < n; ++i, p += sizeof(float)) {
      float value;
      std::memcpy(&value, p, sizeof(value));
      lane[i] += a[k + i] * value;
    }
  }

  // The tree: lanes 8 apart, then 4, 2, 1.
  float Sum() const {
    Float4 low = LoadFloat4(lane) + LoadFloat4(lane + 8);
    Float4 high = LoadFloat4(lane + 4) + LoadFloat4(lane + 12);
    const Float4 four = low + high;
    return (four[0] + four[2]) + (four[1] + four[3]);
  }
};

inline float Dot(const float* a, const float* b, int64_t n) {
  Lanes lanes;
  lanes.Add(a, b, n);
  return lanes.Sum();
}

inline void DecodeBf16(const Bf16* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = ToFloat(x[i]);
}

}  // namespace dsv4::kernels::ref
