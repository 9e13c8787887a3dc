// One call of a kernel, made through a set and through ref, and what both wrote.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"

namespace dsv4::test {

// The buffers that one call writes, each with guard bytes round it: outputs, which are compared,
// and scratch, which is not. Pointers stay valid while the object lives.
class CallBuffers {
 public:
  // `misaligned`: no buffer stands at a multiple of more than its elements' size.
  explicit CallBuffers(bool misaligned) : misaligned_(misaligned) {}

  template <class T>
  T* Output(int64_t n) {
    return New<T>(n, /*compared=*/true);
  }
  // One that the call replaces: it starts with these values.
  template <class T>
  T* Output(const std::vector<T>& initial) {
    T* const output = Output<T>(static_cast<int64_t>(initial.size()));
    std::copy(initial.begin(), initial.end(), output);
    return output;
  }
  template <class T>
  T* Scratch(int64_t n) {
    return New<T>(n, /*compared=*/false);
  }

  bool Intact() const;
  struct Bytes {
    std::vector<std::byte> values;
    size_t element_bytes = 1;
  };
  std::vector<Bytes> outputs();
  // Output number i as T.
  template <class T>
  std::vector<T> Values(size_t i) {
    const Bytes bytes = outputs().at(i);
    std::vector<T> values(bytes.values.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.values.data(), bytes.values.size());
    return values;
  }

 private:
  struct Buffer {
    Guarded<std::byte> bytes;
    size_t element_bytes;
    bool compared;
  };

  template <class T>
  T* New(int64_t n, bool compared) {
    constexpr int64_t kSize = sizeof(T);
    buffers_.push_back(
        {Guarded<std::byte>(n * kSize, misaligned_ ? 64 - kSize : 0), sizeof(T), compared});
    return reinterpret_cast<T*>(buffers_.back().bytes.data());
  }

  bool misaligned_;
  std::deque<Buffer> buffers_;
};

using KernelCall = std::function<void(const kernels::Kernels& kernels, CallBuffers* buffers)>;
using CompareOutputs = std::function<Verdict(CallBuffers* got, CallBuffers* want)>;

// Makes the call through both and compares; false where a byte outside a buffer changed.
Verdict AgainstRef(const kernels::Kernels& set, const KernelCall& call,
                   const CompareOutputs& compare);
// All outputs byte for byte.
Verdict SameBitsAsRef(const kernels::Kernels& set, const KernelCall& call);
// Each element of the outputs, all bf16 (float where they have four bytes), has the bits of ref's,
// except that any NaN equals any NaN.
Verdict SameNumbersAsRef(const kernels::Kernels& set, const KernelCall& call);
// Outputs of bf16, at most `places` representable numbers from ref's.
Verdict NearRef(const kernels::Kernels& set, const KernelCall& call, int places);

// Many verdicts as one: the first that failed, or how many elements agreed.
class Verdicts {
 public:
  // `where` names the part of the case.
  void Add(std::string_view where, const Verdict& verdict) {
    ++num_parts_;
    if (first_.ok && !verdict.ok) first_ = {false, std::string(where) + ": " + verdict.text};
    last_ = verdict.text;
  }
  Verdict Total() const;

 private:
  int64_t num_parts_ = 0;
  Verdict first_{true, ""};
  std::string last_;
};

}  // namespace dsv4::test
