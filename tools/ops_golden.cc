#include "tools/ops_golden.h"

#include <algorithm>
#include <cmath>

#include "base/read_file.h"
#include "tools/ops_golden_file.h"

namespace dsv4::tools {
namespace {

struct Rule {
  std::string_view file;
  Status (*check)(GoldenFile& file);
};

constexpr Rule kRules[] = {
    {"act_quant", CheckActQuant},  {"compressor", CheckCompressor},
    {"convert", CheckConvert},     {"expert", CheckExpert},
    {"formats", CheckFormats},     {"fp4_act_quant", CheckFp4ActQuant},
    {"gemm", CheckGemm},           {"hadamard", CheckHadamard},
    {"hc", CheckHyperConnections}, {"rmsnorm", CheckRmsNorm},
    {"rope", CheckRope},           {"router", CheckRouter},
    {"sampling", CheckSampling},   {"sparse_attn", CheckSparseAttention},
};

Result<json::Value> ReadParameters(const std::filesystem::path& path) {
  DSV4_ASSIGN(const std::string text, ReadFile(path));
  Result<json::Value> value = json::Parse(text);
  if (!value) return Within(path.string(), std::move(value).error());
  return value;
}

// kernels.json of a folder whose other files have rules.
Result<json::Value> ReadFolder(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  if (error) return CannotBeOpened(folder, error.value());
  DSV4_ASSIGN(json::Value parameters, ReadParameters(folder / "kernels.json"));
  for (const auto& entry : entries) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string stem = entry.path().stem().string();
    if (std::ranges::find(kRules, stem, &Rule::file) == std::end(kRules)) {
      return BadInput("{}: no rule compares this file", entry.path().string());
    }
  }
  return parameters;
}

}  // namespace

std::set<std::string> GoldenFile::Cases() const {
  std::set<std::string> cases;
  for (const TensorInfo& tensor : tensors_.tensors()) {
    // "t0.6.probs" belongs to the case "t0.6": the last part is the tensor's.
    const size_t dot = tensor.name.rfind('.');
    if (dot != std::string::npos) cases.insert(tensor.name.substr(0, dot));
  }
  return cases;
}

Result<double> GoldenFile::Parameter(std::string_view list, std::string_view name,
                                     std::string_view field) const {
  const json::Value* const entries = parameters_.Find(list);
  if (entries != nullptr && entries->is_array()) {
    for (const json::Value& entry : entries->items()) {
      const json::Value* const entry_name = entry.Find("name");
      if (entry_name == nullptr || !entry_name->is_string() || entry_name->as_string() != name) {
        continue;
      }
      const json::Value* const value = entry.Find(field);
      if (value != nullptr && value->to_double()) return *value->to_double();
    }
  }
  return BadInput("kernels.json: {}: no entry {} with a number {}", list, name, field);
}

Result<std::vector<int64_t>> GoldenFile::Integers(std::string_view list) const {
  const json::Value* const entries = parameters_.Find(list);
  if (entries == nullptr || !entries->is_array()) return BadInput("kernels.json: no list {}", list);
  std::vector<int64_t> integers;
  for (const json::Value& entry : entries->items()) {
    const std::optional<int64_t> integer = entry.to_int64();
    if (!integer) return BadInput("kernels.json: {}: not all integers", list);
    integers.push_back(*integer);
  }
  return integers;
}

test::Verdict RowsWithin(Floats got, Floats want, double limit) {
  // The comparison's floor of 1e-6 on norms must not hide rows of 1e-28: both sides of a row are
  // multiplied by one power of two first.
  const size_t row = want.values.size() / static_cast<size_t>(want.shape.at(0));
  for (size_t begin = 0; begin < want.values.size(); begin += row) {
    float max = 0.0f;
    for (size_t i = begin; i < begin + row; ++i) max = std::max(max, std::fabs(want.values[i]));
    if (max == 0.0f || !std::isfinite(max)) continue;
    const int exponent = -std::ilogb(max);
    for (size_t i = begin; i < std::min(begin + row, got.values.size()); ++i) {
      got.values[i] = std::ldexp(got.values[i], exponent);
      want.values[i] = std::ldexp(want.values[i], exponent);
    }
  }
  return test::WithinTolerance(got, want, {limit, limit, limit});
}

Result<std::vector<GoldenResult>> RunKernelGolden(const kernels::Kernels& kernels,
                                                  const std::filesystem::path& folder) {
  DSV4_ASSIGN(const json::Value parameters, ReadFolder(folder));
  std::vector<GoldenResult> results;
  for (const Rule& rule : kRules) {
    const std::filesystem::path path = folder / (std::string(rule.file) + ".safetensors");
    if (!std::filesystem::exists(path)) continue;
    DSV4_ASSIGN(const Checkpoint tensors, Checkpoint::Open(path));
    const size_t before = results.size();
    GoldenFile file(std::string(rule.file), tensors, parameters, kernels, &results);
    if (Status status = rule.check(file); !status) {
      return Within(path.string(), std::move(status).error());
    }
    if (results.size() == before) return BadInput("{}: holds no case", path.string());
  }
  if (results.empty()) return BadInput("{}: holds no *.safetensors to compare", folder.string());
  return results;
}

}  // namespace dsv4::tools
