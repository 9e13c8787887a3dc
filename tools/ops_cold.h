// Memory that no cache holds, to measure reading from.
#pragma once

#include "base/result.h"
#include "tensor/buffer.h"
#include "tools/ops_cases.h"

namespace dsv4::tools {

class ColdMemory {
 public:
  static Result<ColdMemory> Make();

  // Fills the memory, unless these are its contents already.
  void Fill(const ColdBytes& cold);
  // The next bytes after those handed out last, from the start again where too few are left: by the
  // time they come again, the caches have seen all others.
  const std::byte* Next(int64_t bytes, int64_t unit = 64, int64_t offset = 0);

 private:
  // Several times the largest share of a last-level cache that one virtual machine gets.
  static constexpr int64_t kBytes = int64_t{640} << 20;

  Buffer buffer_;
  std::string contents_;
  int64_t used_ = 0;
};

}  // namespace dsv4::tools
