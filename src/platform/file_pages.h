// Pages of mapped files: which of them are in memory, and bringing them there. A span means the
// whole pages that hold a byte of it. Advice that the system does not take is no error: a page is
// then read when it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace dsv4 {

int64_t PageBytes();

// What the system reads from disk where a page is touched that is not in memory.
enum class PageFault : uint8_t {
  kReadsAround,  // many pages before and behind it, as at first
  kReadsOne,     // that page alone
};
void SetPageFaults(std::span<const std::byte> bytes, PageFault fault);

// Begins to read the pages that are not in memory; most of the reading goes on after the return.
void ReadPagesAhead(std::span<const std::byte> bytes);
// Returns when all pages have been read into memory (where there is room for them) and entered into
// the page table.
Status ReadPages(std::span<const std::byte> bytes);
// Keeps the pages of all these mappings in memory, each from its first touch to the end of its
// mapping. An error, kDoesNotFit, says what is needed, what the limit is and how to raise it.
Status LockPages(std::span<const std::span<const std::byte>> mappings);

// Bytes of the pages that are in memory, of this mapping or by any other use of the file.
Result<int64_t> ResidentBytes(std::span<const std::byte> bytes);

}  // namespace dsv4
