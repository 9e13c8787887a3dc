#include "kernels/cpu/limits.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dsv4::kernels::cpu {
namespace {

constexpr int kChains = 12;  // independent, so that latency does not count

constexpr int64_t kLineBytes = 64;
// Measured on Sapphire Rapids with 2 threads, GB/s of 1, 2, 4, 8, 16 streams: 33, 37, 42, 44, 44;
// prefetching changes 8 streams by less than 2 %, to the better with 32-byte vectors.
constexpr int64_t kStreams = 8;
constexpr int64_t kPrefetchBytes = 1024;

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

// The streams' bytes, each of `part` bytes, combined to the words of a line.
void ReadBaseline(const std::byte* p, int64_t part, uint64_t* words) {
  for (int64_t at = 0; at < part; at += kLineBytes) {
    for (int64_t stream = 0; stream < kStreams; ++stream) {
      const std::byte* const line = p + stream * part + at;
      __builtin_prefetch(line + kPrefetchBytes);
      uint64_t read[kLineBytes / 8];
      std::memcpy(read, line, sizeof(read));
      for (int64_t i = 0; i < kLineBytes / 8; ++i) words[i] ^= read[i];
    }
  }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void ReadAvx2(const std::byte* p, int64_t part, uint64_t* words) {
  __m256i low = _mm256_setzero_si256();
  __m256i high = _mm256_setzero_si256();
  for (int64_t at = 0; at < part; at += kLineBytes) {
#pragma GCC unroll 8
    for (int64_t stream = 0; stream < kStreams; ++stream) {
      const std::byte* const line = p + stream * part + at;
      _mm_prefetch(reinterpret_cast<const char*>(line + kPrefetchBytes), _MM_HINT_T0);
      const auto* const vectors = reinterpret_cast<const __m256i*>(line);
      low = _mm256_xor_si256(low, _mm256_loadu_si256(vectors));
      high = _mm256_xor_si256(high, _mm256_loadu_si256(vectors + 1));
    }
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 4), high);
}

__attribute__((target("avx512f"))) void ReadAvx512(const std::byte* p, int64_t part,
                                                   uint64_t* words) {
  __m512i sum = _mm512_setzero_si512();
  for (int64_t at = 0; at < part; at += kLineBytes) {
#pragma GCC unroll 8
    for (int64_t stream = 0; stream < kStreams; ++stream) {
      const std::byte* const line = p + stream * part + at;
      _mm_prefetch(reinterpret_cast<const char*>(line + kPrefetchBytes), _MM_HINT_T0);
      sum = _mm512_xor_si512(sum, _mm512_loadu_si512(line));
    }
  }
  _mm512_storeu_si512(words, sum);
}

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

uint64_t ReadMemory(Arithmetic arithmetic, const std::byte* p, int64_t n) {
  const int64_t part = n / kStreams / kLineBytes * kLineBytes;
  uint64_t words[kLineBytes / 8] = {};
#if defined(__x86_64__)
  switch (arithmetic) {
    case Arithmetic::kScalar:
      ReadBaseline(p, part, words);
      break;
    case Arithmetic::kAvx2Fma:
      ReadAvx2(p, part, words);
      break;
    case Arithmetic::kAvx512Fma:
    case Arithmetic::kAvx512Bf16Dot:
      ReadAvx512(p, part, words);
      break;
  }
#else
  (void)arithmetic;
  ReadBaseline(p, part, words);
#endif
  uint64_t sum = 0;
  for (const uint64_t word : words) sum = sum * 31 + word;
  for (int64_t at = part * kStreams; at < n; ++at) sum = sum * 31 + static_cast<uint64_t>(p[at]);
  return sum;
}

}  // namespace dsv4::kernels::cpu
