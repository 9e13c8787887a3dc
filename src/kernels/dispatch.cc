#include "kernels/dispatch.h"

#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu.h"
#include "kernels/ref/ref.h"
#include "platform/cpu_features.h"

namespace dsv4::kernels {
namespace {

struct Set {
  const Kernels& table;
  bool (*runs)(const CpuFeatures&);
};

bool RunsAvx2(const CpuFeatures& f) { return f.avx2 && f.fma && f.f16c; }

bool RunsAvx512(const CpuFeatures& f) {
  return RunsAvx2(f) && f.avx512f && f.avx512bw && f.avx512dq && f.avx512vl;
}

bool RunsVnni(const CpuFeatures& f) { return RunsAvx512(f) && f.avx512_vnni; }

// Whether a multiplication of bf16 pairs costs more than two fused fp32 ones: measured on Sapphire
// Rapids, VDPBF16PS reaches half the rate of VFMADD in operations.
bool HasSlowBf16Dot(const CpuFeatures& f) { return f.intel; }

std::span<const Set> Sets() {
  static const Set sets[] = {
      {ref::Table(), [](const CpuFeatures&) { return true; }},
      {cpu::Avx2Table(), RunsAvx2},
      {cpu::Avx512Table(), RunsAvx512},
      {cpu::Avx512VnniTable(), RunsVnni},
      {cpu::Avx512Bf16Table(),
       [](const CpuFeatures& f) { return RunsVnni(f) && f.avx512_vbmi && f.avx512_bf16; }},
  };
  return sets;
}

std::string Names(std::span<const Kernels* const> tables) {
  std::vector<std::string_view> names;
  for (const Kernels* table : tables) names.emplace_back(table->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const Kernels* Find(std::span<const Kernels* const> tables, std::string_view name) {
  for (const Kernels* table : tables) {
    if (table->name == name) return table;
  }
  return nullptr;
}

template <auto kMember>
bool Own(const Kernels& kernels) {
  return &kernels == &ref::Table() || kernels.*kMember != ref::Table().*kMember;
}

}  // namespace

std::span<const Entry> Entries() {
  static constexpr Entry kEntries[] = {
      {"act_quant", Own<&Kernels::act_quant>},
      {"act_quant_in_place", Own<&Kernels::act_quant_in_place>},
      {"pack_index_rows", Own<&Kernels::pack_index_rows>},
      {"unpack_index_rows", Own<&Kernels::unpack_index_rows>},
      {"pack_kv_rows", Own<&Kernels::pack_kv_rows>},
      {"unpack_kv_rows", Own<&Kernels::unpack_kv_rows>},
      {"prepared_row_bytes", Own<&Kernels::prepared_row_bytes>},
      {"prepare", Own<&Kernels::prepare>},
      {"product", Own<&Kernels::product>},
      {"rms_norm", Own<&Kernels::rms_norm>},
      {"rms_factor", Own<&Kernels::rms_factor>},
      {"rope", Own<&Kernels::rope>},
      {"hadamard", Own<&Kernels::hadamard>},
      {"hc_split", Own<&Kernels::hc_split>},
      {"hc_head_pre", Own<&Kernels::hc_head_pre>},
      {"hc_combine", Own<&Kernels::hc_combine>},
      {"hc_post", Own<&Kernels::hc_post>},
      {"sparse_attention_scratch_bytes", Own<&Kernels::sparse_attention_scratch_bytes>},
      {"sparse_attention", Own<&Kernels::sparse_attention>},
      {"index_scores", Own<&Kernels::index_scores>},
      {"top_k", Own<&Kernels::top_k>},
      {"pool", Own<&Kernels::pool>},
      {"route", Own<&Kernels::route>},
      {"swiglu", Own<&Kernels::swiglu>},
  };
  return kEntries;
}

std::span<const Kernels* const> Compiled() {
  static const std::vector<const Kernels*> tables = [] {
    std::vector<const Kernels*> all;
    for (const Set& set : Sets()) all.push_back(&set.table);
    return all;
  }();
  return tables;
}

std::span<const Kernels* const> Runnable() {
  static const std::vector<const Kernels*> tables = [] {
    std::vector<const Kernels*> some;
    for (const Set& set : Sets()) {
      if (set.runs(GetCpuFeatures())) some.push_back(&set.table);
    }
    if (HasSlowBf16Dot(GetCpuFeatures()) && some.back() == &cpu::Avx512Bf16Table()) {
      std::swap(some[some.size() - 1], some[some.size() - 2]);
    }
    return some;
  }();
  return tables;
}

Result<const Kernels*> Choose(std::string_view name) {
  if (name.empty()) return Runnable().back();
  if (const Kernels* table = Find(Runnable(), name)) return table;
  if (Find(Compiled(), name) != nullptr) {
    return UsageError("kernel set \"{}\" cannot run on this CPU (features: {}); those that can: {}",
                      name, GetCpuFeatures().Text(), Names(Runnable()));
  }
  return UsageError("unknown kernel set \"{}\"; known: {}", name, Names(Compiled()));
}

}  // namespace dsv4::kernels
