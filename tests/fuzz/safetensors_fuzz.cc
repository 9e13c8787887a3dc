// Safetensors headers. The input is the length of the data (eight bytes) and then the header's
// JSON. What is accepted lies inside the data, one after the other, and is written back as it was
// read.
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "checkpoint/header.h"
#include "checkpoint/index.h"

namespace {

void CheckAccepted(const dsv4::ParsedHeader& header, uint64_t data_bytes) {
  uint64_t end = 0;
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    const dsv4::TensorInfo& tensor = header.tensors[i];
    const auto range = header.ranges[i];
    DSV4_CHECK(range.begin == end && range.end >= range.begin && range.end <= data_bytes);
    const auto bytes = dsv4::BytesOfShape(tensor.dtype, tensor.shape);
    DSV4_CHECK(bytes && *bytes == range.end - range.begin);
    DSV4_CHECK(tensor.num_elements() >= 0);
    end = range.end;
  }
  DSV4_CHECK(end == data_bytes);
  const std::string written = dsv4::SafetensorsHeader(header.tensors);
  const auto again = dsv4::ParseSafetensorsHeader(
      std::as_bytes(std::span(written)).subspan(sizeof(uint64_t)), data_bytes);
  DSV4_CHECK(again && again->tensors.size() == header.tensors.size());
  for (size_t i = 0; i < header.tensors.size(); ++i) {
    DSV4_CHECK(again->tensors[i].name == header.tensors[i].name);
    DSV4_CHECK(again->tensors[i].dtype == header.tensors[i].dtype);
    DSV4_CHECK(again->tensors[i].shape == header.tensors[i].shape);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(uint64_t)) return 0;
  uint64_t data_bytes = 0;
  std::memcpy(&data_bytes, data, sizeof(data_bytes));
  const auto json = std::as_bytes(std::span(data, size)).subspan(sizeof(data_bytes));
  if (const auto header = dsv4::ParseSafetensorsHeader(json, data_bytes)) {
    CheckAccepted(*header, data_bytes);
  }
  const auto index = dsv4::ParseIndex({reinterpret_cast<const char*>(json.data()), json.size()});
  if (index) {
    for (const auto& entry : index->entries) DSV4_CHECK(entry.file < index->files.size());
  }
  return 0;
}
