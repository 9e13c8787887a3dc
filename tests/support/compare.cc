#include "tests/support/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "numeric/bf16.h"

namespace dsv4::test {
namespace {

int64_t NumElements(std::span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  return n;
}

// "[3, 17]" for a row-major index.
std::string IndexText(int64_t index, std::span<const int64_t> shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    at[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

// What makes a comparison meaningless before any value is looked at.
std::optional<std::string> ShapeFault(FloatView got, FloatView want) {
  if (!std::ranges::equal(got.shape, want.shape)) {
    return fmt::format("shape [{}], expected [{}]", fmt::join(got.shape, ", "),
                       fmt::join(want.shape, ", "));
  }
  for (const FloatView& side : {got, want}) {
    if (NumElements(side.shape) != static_cast<int64_t>(side.values.size())) {
      return fmt::format("{} values for shape [{}]", side.values.size(),
                         fmt::join(side.shape, ", "));
    }
  }
  return std::nullopt;
}

std::string BothText(int64_t index, FloatView got, FloatView want) {
  const auto i = static_cast<size_t>(index);
  return fmt::format("element {} got {} want {}", IndexText(index, want.shape), got.values[i],
                     want.values[i]);
}

double ReadValue(float value) {
  return value == -std::numeric_limits<float>::infinity() ? 0.0 : static_cast<double>(value);
}

// Judges each element by |got - want| / unit(got, want) <= limit and names the worst one.
template <class Unit>
Verdict JudgeElements(FloatView got, FloatView want, double limit, std::string_view unit_name,
                      Unit unit) {
  if (auto fault = ShapeFault(got, want)) return {false, *std::move(fault)};
  if (want.values.empty()) return {false, "nothing to compare"};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double worst = -1;
  int64_t worst_index = 0;
  int64_t num_wrong = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const double a = static_cast<double>(got.values[i]);
    const double b = static_cast<double>(want.values[i]);
    double error = kInfinity;  // for NaN, and for an infinity that is not matched
    if (a == b) {
      error = 0;
    } else if (std::isfinite(a) && std::isfinite(b)) {
      const double size = unit(a, b);
      error = size > 0 ? std::abs(a - b) / size : kInfinity;
    }
    if (!(error <= limit)) ++num_wrong;
    if (error > worst) {
      worst = error;
      worst_index = static_cast<int64_t>(i);
    }
  }
  return {num_wrong == 0, fmt::format("{} of {} elements beyond {} {}; worst {:.4g} at {}",
                                      num_wrong, want.values.size(), limit, unit_name, worst,
                                      BothText(worst_index, got, want))};
}

// The distance of neighbouring numbers with `mantissa_bits` stored bits at the larger magnitude.
double Spacing(double a, double b, int mantissa_bits) {
  const double magnitude = std::max(std::abs(a), std::abs(b));
  const int exponent = std::max(std::ilogb(magnitude), -126);
  return std::ldexp(1.0, exponent - mantissa_bits);
}

template <class T>
Status AppendAsFloats(const TensorInfo& tensor, std::vector<float>* out) {
  for (size_t offset = 0; offset + sizeof(T) <= tensor.data.size(); offset += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.data.data() + offset, sizeof(T));
    if constexpr (std::is_same_v<T, Bf16>) {
      out->push_back(ToFloat(value));
    } else if constexpr (std::is_same_v<T, float>) {
      out->push_back(value);
    } else {
      const auto as_float = static_cast<float>(value);
      if (static_cast<double>(as_float) != static_cast<double>(value)) {
        return BadInput("tensor {}: {} is not exact as a float", tensor.name, value);
      }
      out->push_back(as_float);
    }
  }
  return {};
}

Status Convert(const TensorInfo& tensor, std::vector<float>* out) {
  switch (tensor.dtype) {
    case DType::kF32:
      return AppendAsFloats<float>(tensor, out);
    case DType::kBF16:
      return AppendAsFloats<Bf16>(tensor, out);
    case DType::kI32:
      return AppendAsFloats<int32_t>(tensor, out);
    case DType::kI64:
      return AppendAsFloats<int64_t>(tensor, out);
    case DType::kI8:
      return AppendAsFloats<int8_t>(tensor, out);
    case DType::kU8:
      return AppendAsFloats<uint8_t>(tensor, out);
    default:
      return BadInput("tensor {}: expected F32, BF16, I32, I64, I8 or U8, found {}", tensor.name,
                      Name(tensor.dtype));
  }
}

}  // namespace

Result<FloatTensor> LoadFloats(const Checkpoint& checkpoint, std::string_view name) {
  const TensorInfo* tensor = checkpoint.Find(name);
  if (tensor == nullptr) {
    return BadInput("{}: no tensor {}", checkpoint.files().front().string(), name);
  }
  FloatTensor result;
  result.shape = tensor->shape;
  result.values.reserve(static_cast<size_t>(tensor->num_elements()));
  DSV4_TRY(Convert(*tensor, &result.values));
  return result;
}

Result<RowErrors> MeasureRows(FloatView got, FloatView want) {
  if (auto fault = ShapeFault(got, want)) return BadInput("{}", *fault);
  if (want.values.empty()) return BadInput("nothing to compare");
  const size_t num_rows = want.shape.empty() ? 1 : static_cast<size_t>(want.shape[0]);
  const size_t width = want.values.size() / num_rows;
  RowErrors result{.max = -1, .max_abs = -1};
  std::vector<double> errors(num_rows);
  double sum_of_squares = 0;
  for (size_t row = 0; row < num_rows; ++row) {
    double difference = 0;
    double norm = 0;
    for (size_t i = row * width; i < (row + 1) * width; ++i) {
      const double a = ReadValue(got.values[i]);
      const double b = ReadValue(want.values[i]);
      if (!std::isfinite(a) || !std::isfinite(b)) {
        return BadInput("not a finite number: {}", BothText(static_cast<int64_t>(i), got, want));
      }
      difference += (a - b) * (a - b);
      norm += b * b;
      if (std::abs(a - b) > result.max_abs) {
        result.max_abs = std::abs(a - b);
        result.worst_index = static_cast<int64_t>(i);
        result.worst_got = got.values[i];
        result.worst_want = want.values[i];
      }
    }
    errors[row] = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-6);
    sum_of_squares += errors[row] * errors[row];
    if (errors[row] > result.max) {
      result.max = errors[row];
      result.worst_row = static_cast<int64_t>(row);
    }
  }
  result.rms = std::sqrt(sum_of_squares / static_cast<double>(num_rows));
  std::ranges::sort(errors);
  result.median = (errors[(num_rows - 1) / 2] + errors[num_rows / 2]) / 2;
  return result;
}

std::string Text(const RowErrors& errors, std::span<const int64_t> shape) {
  return fmt::format(
      "rms {:.3g}, median {:.3g}, max {:.3g} (row {}), max_abs {:.3g} at {} got {} want {}",
      errors.rms, errors.median, errors.max, errors.worst_row, errors.max_abs,
      IndexText(errors.worst_index, shape), errors.worst_got, errors.worst_want);
}

Verdict WithinTolerance(FloatView got, FloatView want, const Tolerance& tolerance) {
  const Result<RowErrors> errors = MeasureRows(got, want);
  if (!errors) return {false, errors.error().message};
  const bool ok = errors->rms <= tolerance.rms && errors->median <= tolerance.median &&
                  errors->max <= tolerance.max;
  return {ok,
          fmt::format("{}; allowed rms {:.3g}, median {:.3g}, max {:.3g}",
                      Text(*errors, want.shape), tolerance.rms, tolerance.median, tolerance.max)};
}

Verdict WithinBf16Steps(FloatView got, FloatView want, double steps) {
  return JudgeElements(got, want, steps, "bf16 steps",
                       [](double a, double b) { return Spacing(a, b, 7); });
}

Verdict WithinUlps(FloatView got, FloatView want, double ulps) {
  return JudgeElements(got, want, ulps, "ulps",
                       [](double a, double b) { return Spacing(a, b, 23); });
}

Verdict WithinRelative(FloatView got, FloatView want, double relative, double floor) {
  return JudgeElements(got, want, relative, "of the value",
                       [floor](double, double b) { return std::max(std::abs(b), floor); });
}

Verdict WithinAbsolute(FloatView got, FloatView want, double absolute) {
  return JudgeElements(got, want, absolute, "absolute", [](double, double) { return 1.0; });
}

Verdict WithinBf16Places(std::span<const Bf16> got, std::span<const Bf16> want, int places) {
  if (got.size() != want.size()) {
    return {false, fmt::format("{} elements, expected {}", got.size(), want.size())};
  }
  // Counts from zero away in both directions.
  const auto place = [](Bf16 x) { return (x.bits & 0x8000) ? -(x.bits & 0x7FFF) : int{x.bits}; };
  int worst = 0;
  int64_t num_wrong = 0;
  size_t worst_index = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const bool got_nan = std::isnan(ToFloat(got[i]));
    const bool want_nan = std::isnan(ToFloat(want[i]));
    if (got_nan && want_nan) continue;
    const int distance = got_nan || want_nan ? std::numeric_limits<int>::max()
                                             : std::abs(place(got[i]) - place(want[i]));
    num_wrong += distance > places;
    if (distance > worst) {
      worst = distance;
      worst_index = i;
    }
  }
  if (worst == 0) return {true, fmt::format("{} elements equal", want.size())};
  return {num_wrong == 0,
          fmt::format("{} of {} elements beyond {} places; worst [{}] got {} want {}", num_wrong,
                      want.size(), places, worst_index, ToFloat(got[worst_index]),
                      ToFloat(want[worst_index]))};
}

Verdict SameBits(FloatView got, FloatView want) {
  if (auto fault = ShapeFault(got, want)) return {false, *std::move(fault)};
  int64_t num_different = 0;
  int64_t first = 0;
  for (size_t i = 0; i < want.values.size(); ++i) {
    const float a = got.values[i];
    const float b = want.values[i];
    const bool both_nan = std::isnan(a) && std::isnan(b);
    if (both_nan || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b)) continue;
    if (num_different++ == 0) first = static_cast<int64_t>(i);
  }
  if (num_different == 0) return {true, fmt::format("{} elements equal", want.values.size())};
  const auto i = static_cast<size_t>(first);
  return {false, fmt::format("{} of {} elements differ; first {} (bits {:08x} and {:08x})",
                             num_different, want.values.size(), BothText(first, got, want),
                             std::bit_cast<uint32_t>(got.values[i]),
                             std::bit_cast<uint32_t>(want.values[i]))};
}

Verdict SameBytes(std::span<const std::byte> got, std::span<const std::byte> want,
                  size_t element_bytes) {
  if (got.size() != want.size()) {
    return {false, fmt::format("{} elements, expected {}", got.size() / element_bytes,
                               want.size() / element_bytes)};
  }
  const auto element = [element_bytes](std::span<const std::byte> bytes, size_t i) {
    uint64_t value = 0;  // little endian, as the files are
    std::memcpy(&value, bytes.data() + i * element_bytes, element_bytes);
    return value;
  };
  const size_t num_elements = want.size() / element_bytes;
  size_t num_different = 0;
  size_t first = 0;
  for (size_t i = 0; i < num_elements; ++i) {
    if (element(got, i) != element(want, i) && num_different++ == 0) first = i;
  }
  if (num_different == 0) return {true, fmt::format("{} elements equal", num_elements)};
  return {false,
          fmt::format("{} of {} elements differ; first [{}] got {:#x} want {:#x}", num_different,
                      num_elements, first, element(got, first), element(want, first))};
}

}  // namespace dsv4::test
