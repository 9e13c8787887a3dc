#include "checkpoint/disk_reads.h"

#include <string>

#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard.h"
#include "platform/file_pages.h"
#include "platform/memory_info.h"

namespace dsv4 {
namespace {

// What is read ahead of its use: enough to keep a disk busy. Not more, since where memory is short
// the system makes room for it by dropping what was read longest ago, and that may be an expert
// that is in memory now and wanted next.
constexpr int64_t kWindowBytes = int64_t{12} << 20;

// See PlanWeightReads.
void SaveMemory(const Checkpoint& checkpoint, int64_t memory_bytes) {
  std::vector<std::span<const std::byte>> common;
  int64_t common_bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::string name = CanonicalName(tensor.name);
    if (ExpertOf(name) || name == "embed.weight") {
      SetPageFaults(tensor.data, PageFault::kReadsOne);
    } else if (!name.starts_with("mtp.")) {
      common.push_back(tensor.data);
      common_bytes += static_cast<int64_t>(tensor.data.size());
    }
  }
  // Where it may not lock, the model runs all the same.
  if (common_bytes <= memory_bytes / 2) static_cast<void>(LockPages(common));
}

}  // namespace

SinglePageReads::SinglePageReads(const Checkpoint& checkpoint) : mappings_(checkpoint.mappings()) {
  for (const auto& mapping : mappings_) SetPageFaults(mapping, PageFault::kReadsOne);
}

SinglePageReads::~SinglePageReads() {
  for (const auto& mapping : mappings_) SetPageFaults(mapping, PageFault::kReadsAround);
}

void ReadTensorAhead(std::span<const std::byte> data) { ReadPagesAhead(data); }

Result<WeightReads> PlanWeightReads(const Checkpoint& checkpoint, int64_t memory_bytes) {
  if (memory_bytes == 0) {
    DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
    memory_bytes = memory.available_bytes;
  }
  // What is joined from several ranks is in memory already, and of the rest one copy is used.
  int64_t weights_bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.num_parts == 1) weights_bytes += static_cast<int64_t>(tensor.data.size());
  }
  WeightReads reads;
  // A tenth more, for the cache and the scratch of the model.
  reads.stay_in_memory = weights_bytes + weights_bytes / 10 <= memory_bytes;
  reads.read_ahead = std::make_shared<ReadAhead>(kWindowBytes, ReadPagesAhead);
  if (!reads.stay_in_memory) SaveMemory(checkpoint, memory_bytes);
  return reads;
}

}  // namespace dsv4
