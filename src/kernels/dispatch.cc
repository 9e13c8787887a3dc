#include "kernels/dispatch.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "kernels/ref/ref.h"
#include "platform/cpu_features.h"

namespace dsv4::kernels {
namespace {

struct Set {
  const Kernels& table;
  bool (*runs)(const CpuFeatures&);
};

// Slowest first.
std::span<const Set> Sets() {
  static const Set sets[] = {
      {ref::Table(), [](const CpuFeatures&) { return true; }},
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

}  // namespace

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
