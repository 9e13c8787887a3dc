// Safetensors files and checkpoints made of them, mapped and never copied.
// Opening reads headers only; the bytes of tensors are touched by whoever uses them. The one
// exception is what a conversion for several ranks has divided: it is joined in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace dsv4 {

// One tensor of an open file. `data` stays valid as long as the Checkpoint lives.
struct TensorInfo {
  std::string name;  // as in the file
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
  uint32_t file = 0;  // index into Checkpoint::files(); of a joined tensor the first part's
  int num_parts = 1;  // ranks that it was joined from

  int64_t num_elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  // "F8_E4M3 [128, 256]", "BF16 [512, 256] (joined from 2 ranks)"
  std::string TypeText() const;
};

// A single *.safetensors file, or a folder with model.safetensors.index.json and its shards, with
// one model.safetensors, or with converted model{rank}-mp{world}.safetensors: all ranks as one
// whole model, or one rank's file as it stands.
// Everything is checked before use: header length against the file, JSON, types, shape x type
// against bytes, overflow, overlaps, holes, duplicate names, index entries that leave the folder,
// missing shards (all named at once), tensors the index names and no shard holds, ranks that do not
// fit together (joined.h). Thread-safe after opening.
class Checkpoint {
 public:
  struct Options {
    // Of a converted checkpoint this rank's file alone; without it the whole model.
    std::optional<int> rank = std::nullopt;
    // Whether to read and join the tensors that are divided over ranks, joined_bytes() of them;
    // otherwise their data are zeros, for callers that want names, shapes and types only.
    bool join = true;
  };

  static Result<Checkpoint> Open(const std::filesystem::path& file_or_folder,
                                 const Options& options);
  static Result<Checkpoint> Open(const std::filesystem::path& file_or_folder) {
    return Open(file_or_folder, Options{});
  }
  // Parses a header held in memory (without its eight bytes of length); `data_bytes` is what
  // follows it in the file. For tests and fuzzing: the tensors have no data.
  static Result<std::vector<TensorInfo>> ParseHeader(std::span<const std::byte> header_json,
                                                     uint64_t data_bytes);

  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  // The folder (or the folder of the single file).
  const std::filesystem::path& folder() const;
  const std::vector<std::filesystem::path>& files() const;
  // The model's, in file order, then data order.
  const std::vector<TensorInfo>& tensors() const;
  // As they stand in the files: the same but for the whole model of several ranks.
  const std::vector<TensorInfo>& file_tensors() const;
  // Of tensors(), by the name in the file; null where there is none.
  const TensorInfo* Find(std::string_view name) const;
  // The files in memory, as mapped, in the order of files().
  std::vector<std::span<const std::byte>> mappings() const;
  // Of the files.
  uint64_t data_bytes() const;
  // Memory of the tensors joined from several ranks; 0 where there are none.
  uint64_t joined_bytes() const;
  // The rank whose file alone was opened; nullopt for a whole model.
  std::optional<int> rank() const;
  // How many ranks a converted checkpoint is for; nullopt for one that is not converted.
  std::optional<int> converted_world() const;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Whether the tensor is packed FP4 of the logical shape [rows, cols]: F4 [rows, cols], or I8
// [rows, cols/2] as in published checkpoints.
bool IsPackedFp4(const TensorInfo& tensor, int64_t rows, int64_t cols);

// A tensor to write: shape in elements of dtype.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;
};

// Writes one file (to a temporary name, renamed at the end). Names must be unique.
Status WriteSafetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors);

}  // namespace dsv4
