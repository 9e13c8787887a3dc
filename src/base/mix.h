// Words of a counter: the output of splitmix64.
#pragma once

#include <cstdint>

namespace dsv4 {

inline constexpr uint64_t kMixStep = 0x9E3779B97F4A7C15u;

// Every input bit moves every output bit.
constexpr uint64_t Mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace dsv4
