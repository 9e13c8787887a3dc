#include "tensor/dtype.h"

#include <array>

namespace dsv4 {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
};

constexpr std::array<Row, 9> kRows = {{
    {DType::kF32, "F32", 32},
    {DType::kBF16, "BF16", 16},
    {DType::kF8E4M3, "F8_E4M3", 8},
    {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kF4, "F4", 4},
    {DType::kI8, "I8", 8},
    {DType::kU8, "U8", 8},
    {DType::kI32, "I32", 32},
    {DType::kI64, "I64", 64},
}};

}  // namespace

std::string_view Name(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

int BitsPerElement(DType dtype) { return kRows[static_cast<size_t>(dtype)].bits; }

}  // namespace dsv4
