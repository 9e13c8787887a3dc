#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace dsv4 {

Result<Buffer> Buffer::Reserve(int64_t bytes, std::string_view what, Pages pages) {
  if (bytes <= 0) return Buffer();
  const auto size = static_cast<size_t>(bytes);
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return DoesNotFit("{}: {} bytes cannot be reserved: {}", what, bytes, std::strerror(errno));
  }
  if (pages == Pages::kHuge) madvise(data, size, MADV_HUGEPAGE);  // a wish: works without
  return Buffer(static_cast<std::byte*>(data), bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace dsv4
