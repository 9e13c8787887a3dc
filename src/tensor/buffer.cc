#include "tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dsv4 {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Gives back what lies round the first `size` bytes of `data` that begin at a huge page; there are
// kHugePage bytes more than `size`.
std::byte* TrimToHugePage(std::byte* data, size_t size) {
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(data) % kHugePage) % kHugePage;
  if (before > 0) munmap(data, before);
  // munmap takes an address that begins a page.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t used = (size + page - 1) / page * page;
  munmap(data + before + used, kHugePage - before);
  return data + before;
}

}  // namespace

Result<Buffer> Buffer::Reserve(int64_t bytes, std::string_view what, Pages pages) {
  if (bytes <= 0) return Buffer();
  const auto size = static_cast<size_t>(bytes);
  const bool huge = pages == Pages::kHuge;
  void* const data = mmap(nullptr, huge ? size + kHugePage : size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return DoesNotFit("{}: {} bytes cannot be reserved: {}", what, bytes, std::strerror(errno));
  }
  auto* begin = static_cast<std::byte*>(data);
  if (huge) {
    begin = TrimToHugePage(begin, size);
    madvise(begin, size, MADV_HUGEPAGE);  // a wish: works without
  }
  return Buffer(begin, bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace dsv4
