#include "kernels/cpu/limits.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dsv4::kernels::cpu {
namespace {

constexpr int kChains = 12;  // independent, so that latency does not count

double RunScalar(int64_t rounds) {
  volatile float sink;
  float chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = static_cast<float>(i);
  for (int64_t round = 0; round < rounds; ++round) {
    for (float& value : chain) value = value * 0.999f + 1e-3f;
  }
  for (const float value : chain) sink = value;
  (void)sink;
  return static_cast<double>(rounds) * kChains * 2;
}

#if defined(__x86_64__)

// The chains pass through `asm`, or the compiler would merge what is equal.
__attribute__((target("avx2,fma"))) double RunAvx2(int64_t rounds) {
  const __m256 a = _mm256_set1_ps(0.999f);
  const __m256 b = _mm256_set1_ps(1e-3f);
  __m256 c[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) c[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      c[i] = _mm256_fmadd_ps(c[i], a, b);
      __asm__ volatile("" : "+x"(c[i]));
    }
  }
  return static_cast<double>(rounds) * kChains * 16;
}

__attribute__((target("avx512f"))) double RunAvx512(int64_t rounds) {
  const __m512 a = _mm512_set1_ps(0.999f);
  const __m512 b = _mm512_set1_ps(1e-3f);
  __m512 c[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) c[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      c[i] = _mm512_fmadd_ps(c[i], a, b);
      __asm__ volatile("" : "+v"(c[i]));
    }
  }
  return static_cast<double>(rounds) * kChains * 32;
}

__attribute__((target("avx512f,avx512bf16"))) double RunBf16Dot(int64_t rounds) {
  const __m512i ones = _mm512_set1_epi16(0x3F80);
  __m512 c[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) c[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      c[i] = _mm512_dpbf16_ps(c[i], reinterpret_cast<__m512bh>(ones),
                              reinterpret_cast<__m512bh>(ones));
      __asm__ volatile("" : "+v"(c[i]));
    }
  }
  return static_cast<double>(rounds) * kChains * 64;
}

#endif

}  // namespace

Arithmetic ArithmeticOf(std::string_view set) {
  if (set == "avx2") return Arithmetic::kAvx2Fma;
  if (set == "avx512" || set == "avx512_vnni") return Arithmetic::kAvx512Fma;
  if (set == "avx512_bf16") return Arithmetic::kAvx512Bf16Dot;
  return Arithmetic::kScalar;
}

double RunArithmetic(Arithmetic arithmetic, int64_t rounds) {
#if defined(__x86_64__)
  switch (arithmetic) {
    case Arithmetic::kScalar:
      break;
    case Arithmetic::kAvx2Fma:
      return RunAvx2(rounds);
    case Arithmetic::kAvx512Fma:
      return RunAvx512(rounds);
    case Arithmetic::kAvx512Bf16Dot:
      return RunBf16Dot(rounds);
  }
#else
  (void)arithmetic;
#endif
  return RunScalar(rounds);
}

uint64_t ReadFourStreams(const std::byte* p, int64_t n) {
  constexpr int64_t kStep = 64;
  constexpr int kStreams = 4;
  const int64_t part = n / kStreams / kStep * kStep;
  uint64_t sums[8] = {};
  for (int64_t at = 0; at < part; at += kStep) {
    for (int64_t stream = 0; stream < kStreams; ++stream) {
      uint64_t words[8];
      std::memcpy(words, p + stream * part + at, sizeof(words));
      for (int i = 0; i < 8; ++i) sums[i] ^= words[i];
    }
  }
  uint64_t sum = 0;
  for (const uint64_t word : sums) sum = sum * 31 + word;
  for (int64_t at = part * kStreams; at < n; ++at) sum = sum * 31 + static_cast<uint64_t>(p[at]);
  return sum;
}

}  // namespace dsv4::kernels::cpu
