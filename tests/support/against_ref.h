// Inputs of kernel tests, and the comparison of a set with ref.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/ref/ref.h"
#include "tests/support/guarded.h"

namespace dsv4::kernels::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline std::vector<Bf16> RandomBf16(int64_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<Bf16> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(ToBf16(normal(rng) * spread));
  return x;
}

inline std::vector<float> RandomFloats(int64_t n, uint32_t seed, float spread = 1.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(normal(rng) * spread);
  return x;
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

// `run(kernels, output)` writes n elements of T; both sets must write the same bytes.
template <class T, class Run>
void ExpectSameBits(const Kernels& k, int64_t n, Run run) {
  dsv4::test::Guarded<T> want(n), got(n, sizeof(T) == 1 ? 1 : 2 * sizeof(T));
  run(ref::Table(), want.data());
  run(k, got.data());
  EXPECT_TRUE(got.Intact());
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(std::memcmp(got.data() + i, want.data() + i, sizeof(T)), 0) << "element " << i;
  }
}

class AgainstRef : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& k() const { return *GetParam(); }
};

}  // namespace dsv4::kernels::test
