// What the rules of ops_golden*.cc share: reading one golden file and noting verdicts.
#pragma once

#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "kernels/kernels.h"
#include "tests/support/compare.h"
#include "tools/ops_golden.h"

namespace dsv4::tools {

using Floats = test::FloatTensor;

// One file under test: its tensors, the parameters beside it, the kernels, and where verdicts go.
class GoldenFile {
 public:
  GoldenFile(std::string file, const Checkpoint& tensors, const json::Value& parameters,
             const kernels::Kernels& kernel_set, std::vector<GoldenResult>* results)
      : kernels(kernel_set),
        file_(std::move(file)),
        tensors_(tensors),
        parameters_(parameters),
        results_(*results) {}

  Result<Floats> Load(const std::string& name) const { return test::LoadFloats(tensors_, name); }
  // The parts of the tensors' names before the first dot.
  std::set<std::string> Cases() const;
  // parameters[list] is an array of objects with "name"; the number `field` of the one named
  // `name`.
  Result<double> Parameter(std::string_view list, std::string_view name,
                           std::string_view field) const;
  Result<std::vector<int64_t>> Integers(std::string_view list) const;
  void Note(std::string name, test::Verdict verdict) {
    results_.push_back({file_, std::move(name), std::move(verdict)});
  }

  const kernels::Kernels& kernels;

 private:
  std::string file_;
  const Checkpoint& tensors_;
  const json::Value& parameters_;
  std::vector<GoldenResult>& results_;
};

inline std::vector<Bf16> ToBf16s(const Floats& x) {
  std::vector<Bf16> y;
  for (const float value : x.values) y.push_back(ToBf16(value));
  return y;
}

template <class T>
std::vector<T> ToIntegers(const Floats& x) {
  std::vector<T> y;
  for (const float value : x.values) y.push_back(static_cast<T>(value));
  return y;
}

template <class T>
float AsFloat(T value) {
  return static_cast<float>(value);
}
inline float AsFloat(Bf16 value) { return ToFloat(value); }
inline float AsFloat(std::byte value) { return static_cast<float>(value); }

// `values` in the shape of `like`.
template <class T>
Floats Shaped(const std::vector<T>& values, const Floats& like) {
  Floats y{{}, like.shape};
  for (const T& value : values) y.values.push_back(AsFloat(value));
  return y;
}

// The rows [begin, end) of the first axis.
inline Floats Rows(const Floats& x, int64_t begin, int64_t end) {
  Floats y = x;
  const auto row = static_cast<int64_t>(x.values.size()) / x.shape.at(0);
  y.shape[0] = end - begin;
  y.values.assign(x.values.begin() + begin * row, x.values.begin() + end * row);
  return y;
}

// |got - want|_2 / |want|_2 of every row of the first axis is within `limit`, rows of tiny norm
// included.
test::Verdict RowsWithin(Floats got, Floats want, double limit);

// The rules, one per golden file.
Status CheckFormats(GoldenFile& file);
Status CheckActQuant(GoldenFile& file);
Status CheckFp4ActQuant(GoldenFile& file);
Status CheckGemm(GoldenFile& file);
Status CheckExpert(GoldenFile& file);
Status CheckSparseAttention(GoldenFile& file);
Status CheckHyperConnections(GoldenFile& file);
Status CheckHadamard(GoldenFile& file);
Status CheckRmsNorm(GoldenFile& file);
Status CheckRope(GoldenFile& file);
Status CheckRouter(GoldenFile& file);
Status CheckCompressor(GoldenFile& file);
Status CheckSampling(GoldenFile& file);
Status CheckConvert(GoldenFile& file);

}  // namespace dsv4::tools
