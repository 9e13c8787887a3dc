#include "tools/ops_cold.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dsv4::tools {

Result<ColdMemory> ColdMemory::Make() {
  ColdMemory cold;
  DSV4_ASSIGN(cold.buffer_, Buffer::Reserve(kBytes, "memory to measure with"));
  // Pages that were never written share one page of zeros.
  cold.Fill(
      {.contents = "ones", .make = [] { return std::vector<std::byte>(4096, std::byte{1}); }});
  return cold;
}

void ColdMemory::Fill(const ColdBytes& cold) {
  if (cold.contents == contents_) return;
  const std::vector<std::byte> pattern = cold.make();
  DSV4_CHECK(!pattern.empty());
  const auto size = static_cast<int64_t>(pattern.size());
  for (int64_t at = 0; at < kBytes; at += size) {
    std::memcpy(buffer_.data() + at, pattern.data(),
                static_cast<size_t>(std::min(size, kBytes - at)));
  }
  contents_ = cold.contents;
  used_ = 0;
}

const std::byte* ColdMemory::Next(int64_t bytes, int64_t unit, int64_t offset) {
  DSV4_CHECK(bytes + offset <= kBytes, "{} bytes of {}", bytes + offset, kBytes);
  int64_t begin = (used_ + unit - 1) / unit * unit + offset;
  if (begin + bytes > kBytes) begin = offset;
  used_ = begin + bytes;
  return buffer_.data() + begin;
}

}  // namespace dsv4::tools
