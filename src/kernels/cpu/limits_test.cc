#include "kernels/cpu/limits.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/dispatch.h"

namespace dsv4::kernels::cpu {
namespace {

TEST(Limits, ReadingDependsOnEveryByte) {
  for (const Kernels* set : Runnable()) {
    const Arithmetic arithmetic = ArithmeticOf(set->name);
    for (const int64_t n : {0, 1, 63, 511, 512, 513, 1500}) {
      std::vector<std::byte> bytes(static_cast<size_t>(n) + 7, std::byte{3});
      const std::byte* const p = bytes.data() + 3;  // at any address
      const uint64_t before = ReadMemory(arithmetic, p, n);
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] ^= std::byte{0x40};
        const bool inside = i >= 3 && i < static_cast<size_t>(n) + 3;
        EXPECT_EQ(ReadMemory(arithmetic, p, n) != before, inside)
            << set->name << " " << n << " " << i;
        bytes[i] ^= std::byte{0x40};
      }
    }
  }
}

TEST(Limits, EverySetReadsTheSame) {
  std::vector<std::byte> bytes(10007);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  const uint64_t want =
      ReadMemory(Arithmetic::kScalar, bytes.data(), static_cast<int64_t>(bytes.size()));
  for (const Kernels* set : Runnable()) {
    EXPECT_EQ(ReadMemory(ArithmeticOf(set->name), bytes.data(), static_cast<int64_t>(bytes.size())),
              want)
        << set->name;
  }
}

TEST(Limits, ArithmeticCountsItsOperations) {
  for (const Kernels* set : Runnable()) {
    const Arithmetic arithmetic = ArithmeticOf(set->name);
    const double once = RunArithmetic(arithmetic, 10);
    EXPECT_GT(once, 0) << set->name;
    EXPECT_EQ(RunArithmetic(arithmetic, 1000), 100 * once) << set->name;
  }
  EXPECT_EQ(ArithmeticOf("another"), Arithmetic::kScalar);
}

}  // namespace
}  // namespace dsv4::kernels::cpu
