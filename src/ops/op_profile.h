// Where the time of a step goes: calls, nanoseconds, bytes and arithmetic by operation.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dsv4 {

enum class OpKind : uint8_t {
  kEmbed,
  kRmsNorm,
  kPrepare,
  kLinearFp8,
  kLinearFp4,
  kLinearBf16,
  kLinearF32,
  kHyperPre,
  kHyperPost,
  kHyperHead,
  kRope,
  kHadamard,
  kPackRows,
  kAttention,
  kIndexSelect,
  kPool,
  kRoute,
  kExpertsProducts,
  kExpertsRest,
  kElementwise,
};
inline constexpr size_t kNumOpKinds = 20;

std::string_view Name(OpKind kind);

// One writer at a time; reading while a step runs is not meant.
struct OpProfile {
  struct Row {
    int64_t calls = 0;  // of the operation; hyper_*'s product and preparation have their own rows
    int64_t ns = 0;
    int64_t bytes = 0;  // of weights or of the KV cache, read
    int64_t flops = 0;  // two for each multiply-add
  };
  std::array<Row, kNumOpKinds> rows = {};

  Row& operator[](OpKind kind) { return rows[static_cast<size_t>(kind)]; }
  const Row& operator[](OpKind kind) const { return rows[static_cast<size_t>(kind)]; }
};

}  // namespace dsv4
