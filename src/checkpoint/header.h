// The JSON at the head of a safetensors file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace dsv4 {

// A header as the file has it: tensors without data, and where their data lies.
struct ParsedHeader {
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::vector<TensorInfo> tensors;  // in data order
  std::vector<Range> ranges;        // of the same tensors, in bytes from the end of the header
};

// Checks everything that can be checked without the data, which is `data_bytes` long: the ranges of
// the accepted tensors fill [0, data_bytes) without overlap or hole.
Result<ParsedHeader> ParseSafetensorsHeader(std::span<const std::byte> json, uint64_t data_bytes);

// What a tensor needs; an error where the product overflows or is no whole number of bytes.
Result<uint64_t> BytesOfShape(DType dtype, std::span<const int64_t> shape);

// The header of a file that holds `tensors` (their data is not looked at) in this order without
// gaps: eight bytes of length, compact JSON, spaces to a multiple of eight. It
// carries the metadata {"format":"pt"}, as the published files do.
std::string SafetensorsHeader(std::span<const TensorInfo> tensors);

}  // namespace dsv4
