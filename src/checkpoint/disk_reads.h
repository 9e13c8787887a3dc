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

// How weights come from disk while the model runs.
struct WeightReads {
  std::shared_ptr<ReadAhead> read_ahead;  // for routed experts
  // Whether the files have room in memory, so that what has been read once stays there.
  bool stay_in_memory = true;
};
// `memory_bytes`: what this process may use; 0 for what the system says. Where that is less than
// the files, tensors of which a token uses a part (routed experts, the embedding) are read without
// the pages round them, and the system drops them first, oldest first. What every token uses is
// locked in memory once it was read, where the system lets this process do so and half of the
// memory is left: the system then neither drops it nor slows its use by looking whether it may be
// dropped.
Result<WeightReads> PlanWeightReads(const Checkpoint& checkpoint, int64_t memory_bytes);

}  // namespace dsv4
