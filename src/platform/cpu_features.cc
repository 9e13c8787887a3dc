#include "platform/cpu_features.h"

#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace dsv4 {
namespace {

#if defined(__x86_64__)

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf Cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return CpuidLeaf{};
  return r;
}

bool Bit(uint32_t word, int bit) { return ((word >> bit) & 1u) != 0; }

// The register states that the operating system saves (XCR0).
uint64_t SavedStates() {
  if (!Bit(Cpuid(1, 0).ecx, 27)) return 0;  // no OSXSAVE
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

CpuFeatures Detect() {
  constexpr uint64_t kYmm = 0x6;
  constexpr uint64_t kZmm = 0xE6;
  constexpr uint64_t kTile = 0x60000;
  const uint64_t states = SavedStates();
  const bool ymm = (states & kYmm) == kYmm;
  const bool zmm = (states & kZmm) == kZmm;
  const bool tile = (states & kTile) == kTile;
  const CpuidLeaf zero = Cpuid(0, 0);
  const CpuidLeaf one = Cpuid(1, 0);
  const CpuidLeaf seven = Cpuid(7, 0);
  const CpuidLeaf seven_one = Cpuid(7, 1);
  return {
      // "GenuineIntel"
      .intel = zero.ebx == 0x756E6547 && zero.edx == 0x49656E69 && zero.ecx == 0x6C65746E,
      .avx2 = ymm && Bit(seven.ebx, 5),
      .fma = ymm && Bit(one.ecx, 12),
      .f16c = ymm && Bit(one.ecx, 29),
      .avx_vnni = ymm && Bit(seven_one.eax, 4),
      .avx512f = zmm && Bit(seven.ebx, 16),
      .avx512bw = zmm && Bit(seven.ebx, 30),
      .avx512dq = zmm && Bit(seven.ebx, 17),
      .avx512vl = zmm && Bit(seven.ebx, 31),
      .avx512_vbmi = zmm && Bit(seven.ecx, 1),
      .avx512_vnni = zmm && Bit(seven.ecx, 11),
      .avx512_bf16 = zmm && Bit(seven_one.eax, 5),
      .amx_tile = tile && Bit(seven.edx, 24),
      .amx_bf16 = tile && Bit(seven.edx, 22),
      .amx_int8 = tile && Bit(seven.edx, 25),
  };
}

#else

CpuFeatures Detect() { return {}; }

#endif

}  // namespace

std::string CpuFeatures::Text() const {
  const std::pair<bool, const char*> names[] = {
      {avx2, "avx2"},
      {fma, "fma"},
      {f16c, "f16c"},
      {avx_vnni, "avx_vnni"},
      {avx512f, "avx512f"},
      {avx512bw, "avx512bw"},
      {avx512dq, "avx512dq"},
      {avx512vl, "avx512vl"},
      {avx512_vbmi, "avx512_vbmi"},
      {avx512_vnni, "avx512_vnni"},
      {avx512_bf16, "avx512_bf16"},
      {amx_tile, "amx_tile"},
      {amx_bf16, "amx_bf16"},
      {amx_int8, "amx_int8"},
  };
  std::string text;
  for (const auto& [present, name] : names) {
    if (!present) continue;
    if (!text.empty()) text += ' ';
    text += name;
  }
  return text.empty() ? "none" : text;
}

const CpuFeatures& GetCpuFeatures() {
  static const CpuFeatures features = Detect();
  return features;
}

}  // namespace dsv4
