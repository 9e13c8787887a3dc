#include "platform/processors.h"

#include <hwloc.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "platform/control_groups.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct Free {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Free>;
using Topology = std::unique_ptr<hwloc_topology, Free>;

Bitmap MakeBitmap() { return Bitmap(hwloc_bitmap_alloc()); }

Topology LoadTopology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  Topology result(topology);
  return hwloc_topology_load(topology) == 0 ? std::move(result) : nullptr;
}

// Reading it takes milliseconds and it does not change; null where the machine cannot be read.
hwloc_topology_t Machine() {
  static const Topology machine = LoadTopology();
  return machine.get();
}

std::vector<int> Numbers(hwloc_const_bitmap_t bitmap) {
  std::vector<int> numbers;
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i)) {
    numbers.push_back(i);
  }
  return numbers;
}

std::vector<std::vector<int>> ReadCores() {
  hwloc_topology_t machine = Machine();
  const Bitmap mask = MakeBitmap();
  const Bitmap here = MakeBitmap();
  std::vector<std::vector<int>> cores;
  if (machine != nullptr && hwloc_get_cpubind(machine, mask.get(), HWLOC_CPUBIND_THREAD) == 0) {
    hwloc_obj_t core = nullptr;
    while ((core = hwloc_get_next_obj_by_type(machine, HWLOC_OBJ_CORE, core)) != nullptr) {
      hwloc_bitmap_and(here.get(), core->cpuset, mask.get());
      if (hwloc_bitmap_iszero(here.get()) == 0) cores.push_back(Numbers(here.get()));
    }
    if (cores.empty()) {
      // A machine that does not tell its cores: each processor is taken for one.
      for (const int cpu : Numbers(mask.get())) cores.push_back({cpu});
    }
  }
  if (cores.empty()) cores.push_back({0});
  return cores;
}

// "200000 100000" or "max 100000": time per period, both in microseconds.
std::optional<double> UnifiedQuota(const fs::path& folder) {
  std::ifstream in(folder / "cpu.max");
  double time = 0;
  double period = 0;
  if (in >> time >> period && time > 0 && period > 0) return time / period;
  return std::nullopt;
}

std::optional<double> OldQuota(const fs::path& folder) {
  std::ifstream time_file(folder / "cpu.cfs_quota_us");
  std::ifstream period_file(folder / "cpu.cfs_period_us");
  double time = 0;  // -1 without a limit
  double period = 0;
  if (time_file >> time && period_file >> period && time > 0 && period > 0) return time / period;
  return std::nullopt;
}

// What `count` things become under a quota.
int Within(double quota, int count) {
  return std::max(1, static_cast<int>(std::min<double>(quota, count)));
}

}  // namespace

int Processors::max_running() const {
  size_t count = 0;
  for (const std::vector<int>& cpus : cores) count += cpus.size();
  return Within(quota, static_cast<int>(count));
}

Processors ReadProcessors() { return {ReadCores(), ReadCpuQuota()}; }

double ReadCpuQuota(const fs::path& root) {
  double quota = kNoLimit;
  for (const fs::path& folder : UnifiedGroupFolders(root)) {
    quota = std::min(quota, UnifiedQuota(folder).value_or(kNoLimit));
  }
  for (const fs::path& folder : OldGroupFolders(root, "cpu")) {
    quota = std::min(quota, OldQuota(folder).value_or(kNoLimit));
  }
  return quota;
}

int DefaultThreads() {
  const Processors processors = ReadProcessors();
  return Within(processors.quota, processors.num_cores());
}

void PinThisThread(const std::vector<int>& cpus) {
  if (Machine() == nullptr) return;
  const Bitmap bitmap = MakeBitmap();
  for (const int cpu : cpus) hwloc_bitmap_set(bitmap.get(), static_cast<unsigned>(cpu));
  hwloc_set_cpubind(Machine(), bitmap.get(), HWLOC_CPUBIND_THREAD);
}

}  // namespace dsv4
