#include "tests/support/against_ref.h"

#include <fmt/format.h>

#include "kernels/dispatch.h"
#include "numeric/bf16.h"

namespace dsv4::test {
namespace {

FloatTensor AsFloats(const CallBuffers::Bytes& bytes) {
  FloatTensor tensor;
  for (size_t at = 0; at < bytes.values.size(); at += bytes.element_bytes) {
    Bf16 narrow;
    float value;
    if (bytes.element_bytes == sizeof(narrow)) {
      std::memcpy(&narrow, bytes.values.data() + at, sizeof(narrow));
      value = ToFloat(narrow);
    } else {
      std::memcpy(&value, bytes.values.data() + at, sizeof(value));
    }
    tensor.values.push_back(value);
  }
  tensor.shape = {static_cast<int64_t>(tensor.values.size())};
  return tensor;
}

// Judges output by output.
template <class Judge>
Verdict EachOutput(const kernels::Kernels& set, const KernelCall& call, Judge judge) {
  return AgainstRef(set, call, [&](CallBuffers* got, CallBuffers* want) {
    const auto got_outputs = got->outputs();
    const auto want_outputs = want->outputs();
    Verdicts verdicts;
    for (size_t i = 0; i < want_outputs.size(); ++i) {
      verdicts.Add(fmt::format("output {}", i), judge(got_outputs.at(i), want_outputs[i]));
    }
    return verdicts.Total();
  });
}

}  // namespace

bool CallBuffers::Intact() const {
  return std::ranges::all_of(buffers_, [](const Buffer& b) { return b.bytes.Intact(); });
}

std::vector<CallBuffers::Bytes> CallBuffers::outputs() {
  std::vector<Bytes> outputs;
  for (Buffer& buffer : buffers_) {
    if (buffer.compared) outputs.push_back({buffer.bytes.values(), buffer.element_bytes});
  }
  return outputs;
}

Verdict AgainstRef(const kernels::Kernels& set, const KernelCall& call,
                   const CompareOutputs& compare) {
  CallBuffers want(/*misaligned=*/false);
  CallBuffers got(/*misaligned=*/true);
  call(**kernels::Choose("ref"), &want);
  call(set, &got);
  if (!got.Intact()) return {false, "bytes outside a buffer changed"};
  return compare(&got, &want);
}

Verdict SameBitsAsRef(const kernels::Kernels& set, const KernelCall& call) {
  return EachOutput(set, call, [](const CallBuffers::Bytes& got, const CallBuffers::Bytes& want) {
    return SameBytes(got.values, want.values, want.element_bytes);
  });
}

Verdict SameNumbersAsRef(const kernels::Kernels& set, const KernelCall& call) {
  return EachOutput(set, call, [](const CallBuffers::Bytes& got, const CallBuffers::Bytes& want) {
    return SameBits(AsFloats(got), AsFloats(want));
  });
}

Verdict NearRef(const kernels::Kernels& set, const KernelCall& call, int places) {
  return AgainstRef(set, call, [places](CallBuffers* got, CallBuffers* want) {
    return WithinBf16Places(got->Values<Bf16>(0), want->Values<Bf16>(0), places);
  });
}

Verdict Verdicts::Total() const {
  if (!first_.ok) return first_;
  if (num_parts_ == 0) return {false, "nothing was compared"};
  if (num_parts_ == 1) return {true, last_};
  return {true, fmt::format("{} comparisons hold, the last: {}", num_parts_, last_)};
}

}  // namespace dsv4::test
