// What one thread of this machine can do at most: how fast it reads memory and how fast it
// multiplies and adds, to judge kernels by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dsv4::kernels::cpu {

// The arithmetic that a kernel set is measured against.
enum class Arithmetic : uint8_t { kScalar, kAvx2Fma, kAvx512Fma, kAvx512Bf16Dot };

// "ref", "avx2", … A set that is not known counts as scalar.
Arithmetic ArithmeticOf(std::string_view set);

// Multiplies and adds in registers for `rounds`; gives back the number of operations (a fused or a
// pairwise one counts as what it adds and multiplies). The processor must have the instructions.
double RunArithmetic(Arithmetic arithmetic, int64_t rounds);

// Reads n bytes from p with the vectors of `arithmetic`, the way that measured fastest: eight
// streams, prefetched. The result depends on every byte.
uint64_t ReadMemory(Arithmetic arithmetic, const std::byte* p, int64_t n);
// What one call should read: threads that claim this much of a larger range read it fastest.
inline constexpr int64_t kReadClaimBytes = int64_t{1} << 20;

}  // namespace dsv4::kernels::cpu
