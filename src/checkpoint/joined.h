// The tensors of a checkpoint that was converted for several ranks, as the one whole model they
// were made of.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "tensor/buffer.h"

namespace dsv4 {

// Whole tensors (the first rank's) and experts are views into the ranks' files. What was divided by
// rows or columns (shard.h) stands in one piece in `memory`, each tensor at a multiple of 64 bytes:
// the one exception to "mapped and never copied", since a product reads its matrix in one piece.
struct JoinedTensors {
  // A rank's part and where it goes: `row_bytes` at a time, `stride` bytes apart.
  struct Copy {
    std::span<const std::byte> part;
    std::byte* to = nullptr;
    size_t row_bytes = 0;
    size_t stride = 0;
  };

  // A whole tensor in the first rank and in another, small enough to be compared.
  struct Replica {
    const TensorInfo* first = nullptr;
    const TensorInfo* other = nullptr;
  };

  std::vector<TensorInfo> tensors;  // in order of first appearance in the files
  Buffer memory;                    // zeros until CopyParts
  std::vector<Copy> copies;         // in file order: one straight pass
  std::vector<Replica> replicas;    // of the `parts` they were joined from
};

// `parts` are the tensors of all files in file order; files[r] is rank r's. Reads no data. Errors
// name file, tensor, expected and found: a tensor that is not in every rank that must have it,
// ranks that disagree about shape or type, an expert in two ranks or in another than its own. An
// expert in no rank is simply not there. What the engine ignores is left out.
Result<JoinedTensors> JoinTensors(std::span<const TensorInfo> parts,
                                  std::span<const std::filesystem::path> files);

// Reads all divided tensors into `joined.memory`. Before, the replicas are compared: ranks of
// different models or conversions are an error that names file and tensor. `files` as above.
Status CopyParts(const JoinedTensors& joined, std::span<const std::filesystem::path> files);

}  // namespace dsv4
