// Limits of locked memory, for tests.
#pragma once

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

namespace dsv4::testing {

// Takes from the calling thread, and from what it starts, the right to lock without limit.
inline void GiveUpLockRights() {
  ::prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);  // refused to whom it would change nothing
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
  ::syscall(SYS_capget, &header, data);
  data[0].effective &= ~(uint32_t{1} << CAP_IPC_LOCK);
  data[0].permitted &= ~(uint32_t{1} << CAP_IPC_LOCK);
  ::syscall(SYS_capset, &header, data);
}

// Runs body() in a thread that may lock `bytes` and no more, as may what it starts.
template <class Body>
void WithLockLimit(uint64_t bytes, Body body) {
  rlimit before{};
  ::getrlimit(RLIMIT_MEMLOCK, &before);
  rlimit limit = before;
  limit.rlim_cur = bytes;
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  std::thread([&] {
    GiveUpLockRights();
    body();
  }).join();
  ::setrlimit(RLIMIT_MEMLOCK, &before);
}

// Of this process.
inline int64_t LockedKilobytes() {
  std::ifstream status("/proc/self/status");
  int64_t kilobytes = -1;
  for (std::string word; status >> word;) {
    if (word == "VmLck:") status >> kilobytes;
  }
  return kilobytes;
}

}  // namespace dsv4::testing
