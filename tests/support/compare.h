// The one way results are compared with what they should be. Every comparison fails on a shape that
// differs and on a NaN, and names the worst (or first) element with both values.
// Used by tests and by `dsv4 ops golden`; needs no GoogleTest.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "numeric/bf16.h"

namespace dsv4::test {

// Floats in row-major order; the product of `shape` is the number of values ([] is one value).
struct FloatView {
  std::span<const float> values;
  std::span<const int64_t> shape;
};

struct FloatTensor {
  std::vector<float> values;
  std::vector<int64_t> shape;

  operator FloatView() const { return {values, shape}; }  // valid while the tensor lives
};

// The tensor `name` as floats. F32, BF16, I32, I64, I8 and U8 convert; an integer that a float
// cannot hold, another type or a name that is not there is an error.
Result<FloatTensor> LoadFloats(const Checkpoint& checkpoint, std::string_view name);

// Whether a comparison held, and its measures in words either way.
struct Verdict {
  bool ok = false;
  std::string text;

  explicit operator bool() const { return ok; }
  // EXPECT_TRUE(verdict) shows the text: this converts to testing::AssertionResult.
  template <class Assertion>
  requires requires(Assertion assertion, std::string message) {
    { Assertion(true) << message } -> std::convertible_to<Assertion>;
  }
  operator Assertion() const { return Assertion(ok) << text; }
};

// The error of a row is e = |got - want|_2 / max(|want|_2, 1e-6), in double, over everything but
// the first axis; -inf is read as 0. rms, median and max are over the rows.
struct RowErrors {
  double rms = 0;
  double median = 0;  // the mean of the middle two for an even number of rows
  double max = 0;
  double max_abs = 0;       // the largest |got - want| of one element
  int64_t worst_row = 0;    // of `max`
  int64_t worst_index = 0;  // of `max_abs`, in row-major order
  float worst_got = 0;
  float worst_want = 0;
};

struct Tolerance {
  double rms = 0;
  double median = 0;
  double max = 0;
};

// An error where shapes differ, there is nothing to compare, or a value is NaN or +inf.
Result<RowErrors> MeasureRows(FloatView got, FloatView want);
// "rms 1.2e-04, median …, worst row 3, worst element [3, 17] got 1 want 2"
std::string Text(const RowErrors& errors, std::span<const int64_t> shape);

// Holds where all three measures are within the tolerance.
Verdict WithinTolerance(FloatView got, FloatView want, const Tolerance& tolerance);

// The following judge every element alone. Infinities must be equal; nothing to compare is a
// failure. |got - want| <= steps * (the spacing of bf16 at the larger of both magnitudes).
Verdict WithinBf16Steps(FloatView got, FloatView want, double steps);
// The same with the spacing of fp32.
Verdict WithinUlps(FloatView got, FloatView want, double ulps);
// |got - want| <= relative * max(|want|, floor).
Verdict WithinRelative(FloatView got, FloatView want, double relative, double floor = 0);
Verdict WithinAbsolute(FloatView got, FloatView want, double absolute);

// At most `places` representable numbers lie from one to the other; infinity follows the largest
// number, any NaN equals any NaN, -0 equals +0. Empty equals empty.
Verdict WithinBf16Places(std::span<const Bf16> got, std::span<const Bf16> want, int places);

// Bit for bit, except that any NaN equals any NaN; -0 and +0 differ. Empty equals empty.
Verdict SameBits(FloatView got, FloatView want);

// Byte for byte, in elements of `element_bytes` (1 to 8).
Verdict SameBytes(std::span<const std::byte> got, std::span<const std::byte> want,
                  size_t element_bytes);
template <class T>
Verdict SameElements(std::span<const T> got, std::span<const T> want) {
  return SameBytes(std::as_bytes(got), std::as_bytes(want), sizeof(T));
}

}  // namespace dsv4::test
