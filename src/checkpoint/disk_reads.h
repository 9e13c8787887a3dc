// What is read from disk of a checkpoint that is in use, and when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "platform/read_ahead.h"

namespace dsv4 {

class Checkpoint;

// While it lives, a page of the checkpoint that is touched is read alone: for small tensors that
// lie between large ones.
class SinglePageReads {
 public:
  explicit SinglePageReads(const Checkpoint& checkpoint);
  ~SinglePageReads();
  SinglePageReads(const SinglePageReads&) = delete;
  SinglePageReads& operator=(const SinglePageReads&) = delete;

 private:
  std::vector<std::span<const std::byte>> mappings_;
};

// Begins to read a tensor that is about to be touched as a whole.
void ReadTensorAhead(std::span<const std::byte> data);

// How experts come from disk.
struct ExpertReads {
  std::shared_ptr<ReadAhead> read_ahead;
  // Whether the files have room in memory, so that what has been read once stays there.
  bool stay_in_memory = true;
};
// `memory_bytes`: what this process may use; 0 for what the system says.
Result<ExpertReads> PlanExpertReads(const Checkpoint& checkpoint, int64_t memory_bytes);

// For tensors that are read ahead, or of which single rows are used, where memory is short: a page
// is read without those round it, and of these pages and others the system drops these first,
// oldest first, so that weights of every token stay.
void ReadOnlyWhatIsTouched(std::span<const std::byte> data);

}  // namespace dsv4
