// The elements of synthetic tensors. Any of them can be computed alone, in any order: each is a
// function of the tensor's name, the seed and its place. Everything is integer arithmetic but one
// exact scaling and one rounding to bf16, so no compiler can change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mix.h"
#include "tensor/dtype.h"

namespace dsv4 {

// FNV-1a, 64 bits.
constexpr uint64_t SynthHash(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return hash;
}

// What a tensor of this name draws its words from.
constexpr uint64_t SynthKey(std::string_view name, uint64_t seed) {
  return Mix64(SynthHash(name) + kMixStep * (seed + 1));
}
// The tensor's j-th word.
constexpr uint64_t SynthWord(uint64_t key, uint64_t j) { return Mix64(key + kMixStep * (j + 1)); }

enum class SynthKind : uint8_t {
  kRaw,           // bytes, all equally likely
  kFp8,           // E4M3 codes of standard deviation 142, never NaN
  kScale,         // E8M0 codes around `base`: one less, itself twice as often, one more
  kBell,          // (sum of four 16-bit numbers, centred, + offset) · 2^-power; BF16 or F32
  kHyperBase,     // as kBell with power 16 below `narrow` elements, 14 from there; F32
  kTokenExperts,  // rows of distinct expert numbers below `experts`; I64
};

struct SynthTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  SynthKind kind = SynthKind::kRaw;
  int32_t base = 0;
  int32_t power = 0;
  int32_t offset = 0;
  uint64_t narrow = 0;
  uint64_t experts = 0;

  uint64_t num_bytes() const;
};

// Bytes [first_byte, first_byte + out.size()) of the tensor's data, which must lie inside it.
void FillSynthTensor(const SynthTensor& tensor, uint64_t seed, uint64_t first_byte,
                     std::span<std::byte> out);

}  // namespace dsv4
