#include "checkpoint/verify.h"

#include <atomic>
#include <cstring>

namespace dsv4 {
namespace {

// The number of elements for which `is` holds. Loads may be misaligned.
template <class T, class Predicate>
int64_t CountIf(std::span<const std::byte> data, Predicate is) {
  int64_t count = 0;
  for (size_t i = 0; i + sizeof(T) <= data.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, data.data() + i, sizeof(T));
    count += is(value) ? 1 : 0;
  }
  return count;
}

// `infinity` is the pattern of +infinity, all exponent bits set.
template <class T>
void CountFloats(std::span<const std::byte> data, T infinity, TensorFaults* faults) {
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  const auto magnitude = [=](T bits) { return static_cast<T>(bits & ~kSign); };
  faults->num_nan = CountIf<T>(data, [=](T bits) { return magnitude(bits) > infinity; });
  faults->num_infinite = CountIf<T>(data, [=](T bits) { return magnitude(bits) == infinity; });
}

template <class T>
int64_t CountOutside(std::span<const std::byte> data, int64_t end) {
  return CountIf<T>(data, [=](T value) { return value < 0 || value >= end; });
}

// Makes the disk deliver every page.
void Touch(std::span<const std::byte> data) {
  constexpr size_t kPage = 4096;
  unsigned sum = 0;
  for (size_t i = 0; i < data.size(); i += kPage) sum += std::to_integer<unsigned>(data[i]);
  static std::atomic<unsigned> sink;  // keeps the reads
  sink.store(sum, std::memory_order_relaxed);
}

}  // namespace

TensorFaults FindFaults(const TensorInfo& tensor, int64_t num_experts) {
  TensorFaults faults;
  const bool table = tensor.name.ends_with("tid2eid");
  switch (tensor.dtype) {
    case DType::kF32:
      CountFloats<uint32_t>(tensor.data, 0x7F800000u, &faults);
      break;
    case DType::kBF16:
      CountFloats<uint16_t>(tensor.data, 0x7F80u, &faults);
      break;
    case DType::kF8E4M3:
      faults.num_nan =
          CountIf<uint8_t>(tensor.data, [](uint8_t code) { return (code & 0x7F) == 0x7F; });
      break;
    case DType::kF8E8M0:
      faults.num_nan_scales =
          CountIf<uint8_t>(tensor.data, [](uint8_t code) { return code == 0xFF; });
      break;
    case DType::kI64:
      if (table) faults.num_out_of_range = CountOutside<int64_t>(tensor.data, num_experts);
      break;
    case DType::kI32:
      if (table) faults.num_out_of_range = CountOutside<int32_t>(tensor.data, num_experts);
      break;
    case DType::kF4:
    case DType::kI8:
    case DType::kU8:
      Touch(tensor.data);
      break;
  }
  return faults;
}

}  // namespace dsv4
