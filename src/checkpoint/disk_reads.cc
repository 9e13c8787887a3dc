#include "checkpoint/disk_reads.h"

#include "checkpoint/safetensors.h"
#include "platform/file_pages.h"
#include "platform/memory_info.h"

namespace dsv4 {
namespace {

// What is read ahead of its use: enough to keep a disk busy. Not more, since where memory is short
// the system makes room for it by dropping what was read longest ago, and that may be an expert
// that is in memory now and wanted next.
constexpr int64_t kWindowBytes = int64_t{12} << 20;

}  // namespace

SinglePageReads::SinglePageReads(const Checkpoint& checkpoint) : mappings_(checkpoint.mappings()) {
  for (const auto& mapping : mappings_) SetPageFaults(mapping, PageFault::kReadsOne);
}

SinglePageReads::~SinglePageReads() {
  for (const auto& mapping : mappings_) SetPageFaults(mapping, PageFault::kReadsAround);
}

void ReadTensorAhead(std::span<const std::byte> data) { ReadPagesAhead(data); }

Result<ExpertReads> PlanExpertReads(const Checkpoint& checkpoint, int64_t memory_bytes) {
  if (memory_bytes == 0) {
    DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
    memory_bytes = memory.available_bytes;
  }
  const auto weights_bytes = static_cast<int64_t>(checkpoint.data_bytes());
  ExpertReads reads;
  // A tenth more, for the cache and the scratch of the model.
  reads.stay_in_memory = weights_bytes + weights_bytes / 10 <= memory_bytes;
  reads.read_ahead = std::make_shared<ReadAhead>(kWindowBytes, ReadPagesAhead);
  return reads;
}

void ReadOnlyWhatIsTouched(std::span<const std::byte> data) {
  SetPageFaults(data, PageFault::kReadsOne);
}

}  // namespace dsv4
