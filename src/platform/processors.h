// The processors that this process may compute on.
#pragma once

#include <filesystem>
#include <vector>

namespace dsv4 {

struct Processors {
  // Of each physical core the logical processors (numbers of the system) that the affinity mask of
  // the calling thread holds, at least one; the cores of a NUMA node are neighbours.
  std::vector<std::vector<int>> cores;
  // Processors' worth of time that the control groups grant; infinity where they set no limit.
  double quota = 0;

  int num_cores() const { return static_cast<int>(cores.size()); }
  // Threads that can run at the same time: logical processors, within the quota; at least 1.
  int max_running() const;
};
Processors ReadProcessors();

// The least quota of this process's control group and of all above it, of both versions of control
// groups. `root` is / but in tests.
double ReadCpuQuota(const std::filesystem::path& root = "/");

// One thread per physical core of the calling thread's affinity mask, within the quota; at least 1.
int DefaultThreads();

// Binds the calling thread to these logical processors. Where the system refuses, nothing changes.
void PinThisThread(const std::vector<int>& cpus);

}  // namespace dsv4
