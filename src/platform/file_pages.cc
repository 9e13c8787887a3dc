#include "platform/file_pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace dsv4 {
namespace {

// The system cuts longer requests down to the read-ahead of the device, which is seldom set below
// this.
constexpr size_t kAheadBytes = size_t{128} << 10;
constexpr size_t kResidentPiece = size_t{1} << 30;

// The whole pages that hold `bytes`.
std::span<std::byte> Pages(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const auto page = static_cast<uintptr_t>(PageBytes());
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = address / page * page;
  const uintptr_t end = (address + bytes.size() + page - 1) / page * page;
  return {reinterpret_cast<std::byte*>(begin), end - begin};
}

void TouchPages(std::span<const std::byte> pages) {
  for (size_t i = 0; i < pages.size(); i += static_cast<size_t>(PageBytes())) {
    static_cast<void>(*static_cast<const volatile std::byte*>(&pages[i]));
  }
}

std::string LimitText(rlim_t limit) {
  return limit == RLIM_INFINITY ? "none" : fmt::format("{} KiB", limit >> 10);
}

std::unexpected<Error> BeyondLockLimit(size_t needed) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return DoesNotFit(
      "{} KiB cannot be locked in memory: the limit (RLIMIT_MEMLOCK, ulimit -l) is {}, and {} may "
      "be the most without more rights; raise it by \"memlock\" in /etc/security/limits.conf, "
      "LimitMEMLOCK= of a systemd unit or --ulimit memlock=-1 of a container, or grant the "
      "capability CAP_IPC_LOCK",
      needed >> 10, LimitText(limit.rlim_cur), LimitText(limit.rlim_max));
}

}  // namespace

int64_t PageBytes() {
  static const int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

void SetPageFaults(std::span<const std::byte> bytes, PageFault fault) {
  const std::span<std::byte> pages = Pages(bytes);
  const int advice = fault == PageFault::kReadsOne ? MADV_RANDOM : MADV_NORMAL;
  if (!pages.empty()) ::madvise(pages.data(), pages.size(), advice);
}

void ReadPagesAhead(std::span<const std::byte> bytes) {
  for (std::span<std::byte> rest = Pages(bytes); !rest.empty();) {
    const size_t piece = std::min(rest.size(), kAheadBytes);
    ::madvise(rest.data(), piece, MADV_WILLNEED);
    rest = rest.subspan(piece);
  }
}

Status ReadPages(std::span<const std::byte> bytes) {
  const std::span<std::byte> pages = Pages(bytes);
  if (pages.empty()) return {};
  ReadPagesAhead(pages);
  while (::madvise(pages.data(), pages.size(), MADV_POPULATE_READ) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) {
      return Failed("cannot be read: {}", std::generic_category().message(errno));
    }
    TouchPages(pages);  // Linux before 5.14
    break;
  }
  return {};
}

Status LockPages(std::span<const std::span<const std::byte>> mappings) {
  size_t needed = 0;
  for (const auto& bytes : mappings) needed += Pages(bytes).size();
  for (const auto& bytes : mappings) {
    const std::span<std::byte> pages = Pages(bytes);
    if (pages.empty() || ::mlock2(pages.data(), pages.size(), MLOCK_ONFAULT) == 0) continue;
    if (errno == ENOMEM || errno == EPERM || errno == EAGAIN) return BeyondLockLimit(needed);
    return Failed("{} KiB cannot be locked in memory: {}", needed >> 10,
                  std::generic_category().message(errno));
  }
  return {};
}

Result<int64_t> ResidentBytes(std::span<const std::byte> bytes) {
  const auto page = static_cast<size_t>(PageBytes());
  int64_t resident = 0;
  std::vector<unsigned char> flags;
  for (std::span<std::byte> rest = Pages(bytes); !rest.empty();) {
    const size_t piece = std::min(rest.size(), kResidentPiece);
    flags.assign(piece / page, 0);
    if (::mincore(rest.data(), piece, flags.data()) != 0) {
      return Failed("the system does not tell which pages are in memory: {}",
                    std::generic_category().message(errno));
    }
    resident += std::ranges::count_if(flags, [](unsigned char flag) { return (flag & 1) != 0; });
    rest = rest.subspan(piece);
  }
  return resident * static_cast<int64_t>(page);
}

}  // namespace dsv4
