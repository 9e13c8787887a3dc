#include "tensor/workspace.h"

#include <algorithm>

#include "base/check.h"

namespace dsv4 {

Result<Workspace> Workspace::Create(int64_t capacity_bytes) {
  DSV4_ASSIGN(Buffer buffer, Buffer::Reserve(capacity_bytes, "workspace"));
  return Workspace(std::move(buffer));
}

std::byte* Workspace::TakeBytes(int64_t bytes) {
  DSV4_CHECK(bytes >= 0 && bytes <= capacity() - used_, "workspace: {} bytes wanted, {} of {} left",
             bytes, capacity() - used_, capacity());
  std::byte* result = buffer_.data() + used_;
  used_ = std::min((used_ + bytes + kAlignment - 1) / kAlignment * kAlignment, capacity());
  high_water_ = std::max(high_water_, used_);
  return result;
}

}  // namespace dsv4
