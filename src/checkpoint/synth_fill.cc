#include "checkpoint/synth_fill.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "numeric/bf16.h"

namespace dsv4 {
namespace {

static_assert(std::endian::native == std::endian::little);

// The code of every 16-bit lane. Mantissa and sign are the low four bits; the trailing zero bits z
// of the other twelve give the exponent: 14-z up to z = 10, then 0, and 15 where none is set.
// A table: three times as fast as computing it, made at start.
const std::array<uint8_t, 65536> kFp8OfLane = [] {
  std::array<uint8_t, 65536> codes{};
  for (unsigned lane = 0; lane < codes.size(); ++lane) {
    const int zeros = lane >> 4 == 0 ? 12 : std::countr_zero(lane >> 4);
    const int exponent = zeros <= 10 ? 14 - zeros : zeros == 11 ? 0 : 15;
    unsigned mantissa = lane & 7;
    if (exponent == 15 && mantissa == 7) mantissa = 6;  // would be NaN
    codes[lane] =
        static_cast<uint8_t>((lane & 8) << 4 | static_cast<unsigned>(exponent) << 3 | mantissa);
  }
  return codes;
}();

// The sum of the word's four 16-bit lanes, centred: -131070 … 131070.
inline int32_t Bell(uint64_t word) {
  constexpr uint64_t kEvenLanes = 0x0000FFFF0000FFFFu;
  const uint64_t pairs = (word & kEvenLanes) + (word >> 16 & kEvenLanes);
  return static_cast<int32_t>((pairs & 0xFFFFFFFFu) + (pairs >> 32)) - 131070;
}

// 2^-power. The value times it is exact: 20 bits and a shift.
float Step(int32_t power) { return std::bit_cast<float>(static_cast<uint32_t>(127 - power) << 23); }

// Calls store(i, word) for `count` words from the `first` on.
template <class Store>
inline void ForWords(uint64_t key, uint64_t first, uint64_t count, Store store) {
  uint64_t state = key + kMixStep * (first + 1);
  for (uint64_t i = 0; i < count; ++i, state += kMixStep) store(i, Mix64(state));
}

void FillRaw(uint64_t key, uint64_t first, uint64_t count, std::byte* out) {
  ForWords(key, first, count,
           [out](uint64_t i, uint64_t word) { std::memcpy(out + 8 * i, &word, 8); });
}

void FillFp8(uint64_t key, uint64_t first, uint64_t count, std::byte* out) {
  ForWords(key, first, count, [out](uint64_t i, uint64_t word) {
    uint32_t codes = 0;
    for (int lane = 0; lane < 4; ++lane) {
      codes |= static_cast<uint32_t>(kFp8OfLane[word >> 16 * lane & 65535]) << 8 * lane;
    }
    std::memcpy(out + 4 * i, &codes, 4);
  });
}

void FillScale(int32_t base, uint64_t key, uint64_t first, uint64_t count, std::byte* out) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const uint64_t lowest = kOnes * static_cast<uint64_t>(base - 1);
  // Eight at once: two bits 0, 1, 2, 3 of each byte become 0, 1, 1, 2 above the lowest.
  ForWords(key, first, count, [out, lowest](uint64_t i, uint64_t word) {
    const uint64_t steps = ((word & 3 * kOnes) + kOnes) >> 1 & 3 * kOnes;
    const uint64_t codes = lowest + steps;
    std::memcpy(out + 8 * i, &codes, 8);
  });
}

void FillBellBf16(const SynthTensor& tensor, uint64_t key, uint64_t first, uint64_t count,
                  std::byte* out) {
  const float step = Step(tensor.power);
  ForWords(key, first, count, [out, step, offset = tensor.offset](uint64_t i, uint64_t word) {
    const Bf16 value = ToBf16(static_cast<float>(Bell(word) + offset) * step);
    std::memcpy(out + 2 * i, &value, 2);
  });
}

void FillBellF32(const SynthTensor& tensor, uint64_t key, uint64_t first, uint64_t count,
                 std::byte* out) {
  const float step = Step(tensor.power);
  ForWords(key, first, count, [out, step, offset = tensor.offset](uint64_t i, uint64_t word) {
    const float value = static_cast<float>(Bell(word) + offset) * step;
    std::memcpy(out + 4 * i, &value, 4);
  });
}

void FillHyperBase(const SynthTensor& tensor, uint64_t key, uint64_t first, uint64_t count,
                   std::byte* out) {
  ForWords(key, first, count, [&tensor, first, out](uint64_t i, uint64_t word) {
    const float value = static_cast<float>(Bell(word)) * Step(first + i < tensor.narrow ? 16 : 14);
    std::memcpy(out + 4 * i, &value, 4);
  });
}

// Rows `first`… of distinct experts: a slot that repeats an earlier one moves on to the next free.
void FillTokenExperts(const SynthTensor& tensor, uint64_t key, uint64_t first, uint64_t count,
                      std::byte* out) {
  const auto width = static_cast<uint64_t>(tensor.shape[1]);
  std::vector<uint64_t> row(width);
  for (uint64_t r = 0; r < count; ++r) {
    for (uint64_t slot = 0; slot < width; ++slot) {
      uint64_t expert = SynthWord(key, (first + r) * width + slot) % tensor.experts;
      const auto end = row.begin() + static_cast<std::ptrdiff_t>(slot);
      while (std::find(row.begin(), end, expert) != end) expert = (expert + 1) % tensor.experts;
      row[slot] = expert;
    }
    std::memcpy(out + r * width * 8, row.data(), width * 8);
  }
}

// What is computed at once: the elements of one word, or one row of experts.
uint64_t UnitBytes(const SynthTensor& tensor) {
  switch (tensor.kind) {
    case SynthKind::kRaw:
    case SynthKind::kScale:
      return 8;
    case SynthKind::kFp8:
    case SynthKind::kHyperBase:
      return 4;
    case SynthKind::kBell:
      return tensor.dtype == DType::kBF16 ? 2 : 4;
    case SynthKind::kTokenExperts:
      return static_cast<uint64_t>(tensor.shape[1]) * 8;
  }
  return 1;
}

void FillUnits(const SynthTensor& tensor, uint64_t key, uint64_t first, uint64_t count,
               std::byte* out) {
  switch (tensor.kind) {
    case SynthKind::kRaw:
      return FillRaw(key, first, count, out);
    case SynthKind::kFp8:
      return FillFp8(key, first, count, out);
    case SynthKind::kScale:
      return FillScale(tensor.base, key, first, count, out);
    case SynthKind::kBell:
      return tensor.dtype == DType::kBF16 ? FillBellBf16(tensor, key, first, count, out)
                                          : FillBellF32(tensor, key, first, count, out);
    case SynthKind::kHyperBase:
      return FillHyperBase(tensor, key, first, count, out);
    case SynthKind::kTokenExperts:
      return FillTokenExperts(tensor, key, first, count, out);
  }
}

}  // namespace

uint64_t SynthTensor::num_bytes() const {
  uint64_t bits = static_cast<uint64_t>(BitsPerElement(dtype));
  for (const int64_t extent : shape) bits *= static_cast<uint64_t>(extent);
  return bits / 8;
}

void FillSynthTensor(const SynthTensor& tensor, uint64_t seed, uint64_t first_byte,
                     std::span<std::byte> out) {
  DSV4_CHECK(first_byte + out.size() <= tensor.num_bytes(), "{}", tensor.name);
  const uint64_t key = SynthKey(tensor.name, seed);
  const uint64_t unit = UnitBytes(tensor);
  std::vector<std::byte> partial(unit);
  uint64_t place = first_byte;
  while (!out.empty()) {
    const uint64_t skipped = place % unit;
    size_t taken = 0;
    if (skipped == 0 && out.size() >= unit) {
      taken = out.size() / unit * unit;
      FillUnits(tensor, key, place / unit, taken / unit, out.data());
    } else {
      taken = std::min<size_t>(out.size(), unit - skipped);
      FillUnits(tensor, key, place / unit, 1, partial.data());
      std::memcpy(out.data(), partial.data() + skipped, taken);
    }
    place += taken;
    out = out.subspan(taken);
  }
}

}  // namespace dsv4
