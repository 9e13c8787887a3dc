// Element types of tensors in files and in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dsv4 {

enum class DType : uint8_t {
  kF32,
  kBF16,
  kF8E4M3,
  kF8E8M0,
  kF4,  // two E2M1 codes a byte, low nibble first; shapes are logical (elements, not bytes)
  kI8,  // checkpoints store packed FP4 under this type, with shapes in bytes
  kU8,
  kI32,
  kI64,
};

// The safetensors spelling: "F32", "BF16", "F8_E4M3", "F8_E8M0", "F4", "I8", "U8", "I32", "I64".
std::string_view Name(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// 4 for kF4.
int BitsPerElement(DType dtype);

}  // namespace dsv4
