#include "checkpoint/convert.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "checkpoint/convert_plan.h"
#include "checkpoint/fp4_to_fp8.h"
#include "checkpoint/header.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"
#include "platform/mmap_file.h"
#include "platform/output_file.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using Action = ConvertedTensor::Action;

constexpr size_t kPieceBytes = size_t{8} << 20;

int64_t RowsOf(const TensorInfo& tensor) { return tensor.shape.empty() ? 1 : tensor.shape[0]; }

// Of all axes but the first.
size_t RowBytes(const TensorInfo& tensor) {
  int64_t bits = BitsPerElement(tensor.dtype);
  for (size_t i = 1; i < tensor.shape.size(); ++i) bits *= tensor.shape[i];
  return static_cast<size_t>(bits / 8);
}

std::span<const std::byte> RowOf(const TensorInfo& tensor, int64_t row) {
  const size_t bytes = RowBytes(tensor);
  return tensor.data.subspan(static_cast<size_t>(row) * bytes, bytes);
}

// Writes the tensors of one file, in pieces.
class Emitter {
 public:
  Emitter(const ConvertOptions& options, const ConvertRules& rules, Progress& progress)
      : options_(options), rules_(rules), progress_(progress) {}

  Status WriteFile(const fs::path& path, std::span<const ConvertedTensor> tensors) {
    std::vector<TensorInfo> infos;
    for (const ConvertedTensor& tensor : tensors) infos.push_back(tensor.info);
    DSV4_ASSIGN(OutputFile file, OutputFile::Create(path));
    DSV4_TRY(file.Write(SafetensorsHeader(infos)));
    for (const ConvertedTensor& tensor : tensors) {
      if (auto status = Emit(tensor, &file); !status) {
        return Within("tensor " + tensor.source->name, std::move(status).error());
      }
    }
    return file.Commit();
  }

 private:
  Status Emit(const ConvertedTensor& tensor, OutputFile* file) {
    switch (tensor.action) {
      case Action::kCopy:
        return Copy(tensor, file);
      case Action::kDequantize:
        return EmitRows(tensor, 1, file, [this, &tensor](int64_t row, std::span<std::byte> out) {
          DequantizeRow(tensor, row, out);
          return Status();
        });
      case Action::kFp8Codes: {
        const Fp4Matrix matrix = MatrixOf(tensor.info.shape, *tensor.source, *tensor.scale);
        return EmitRows(tensor, kFp8Tile, file, [&matrix](int64_t row, std::span<std::byte> out) {
          return Fp8CodesOfBand(matrix, row / kFp8Tile, out);
        });
      }
      case Action::kFp8Scales: {
        const std::vector<int64_t> shape = {RowsOf(*tensor.weight),
                                            static_cast<int64_t>(RowBytes(*tensor.weight)) * 2};
        const Fp4Matrix matrix = MatrixOf(shape, *tensor.weight, *tensor.source);
        return EmitRows(tensor, 1, file, [&matrix](int64_t row, std::span<std::byte> out) {
          return Fp8ScalesOfBand(matrix, row, out);
        });
      }
    }
    return {};
  }

  static Fp4Matrix MatrixOf(const std::vector<int64_t>& shape, const TensorInfo& weight,
                            const TensorInfo& scale) {
    return {shape[0], shape[1], weight.data, scale.data};
  }

  // A piece of whole rows is one span of the mapping.
  Status Copy(const ConvertedTensor& tensor, OutputFile* file) {
    const size_t row_bytes = RowBytes(tensor.info);
    const size_t source_row_bytes = RowBytes(*tensor.source);
    if (row_bytes == source_row_bytes) {
      const auto first = static_cast<size_t>(tensor.first_row) * row_bytes;
      auto rest =
          tensor.source->data.subspan(first, static_cast<size_t>(RowsOf(tensor.info)) * row_bytes);
      for (; !rest.empty(); rest = rest.subspan(std::min(rest.size(), kPieceBytes))) {
        DSV4_TRY(WritePiece(rest.first(std::min(rest.size(), kPieceBytes)), file));
      }
      return {};
    }
    const auto skipped =
        static_cast<size_t>(tensor.first_col * BitsPerElement(tensor.info.dtype) / 8);
    return EmitRows(tensor, 1, file, [&tensor, skipped](int64_t row, std::span<std::byte> out) {
      const auto source = RowOf(*tensor.source, tensor.first_row + row);
      std::memcpy(out.data(), source.data() + skipped, out.size());
      return Status();
    });
  }

  // Calls make(row, out) for every `step` rows of the converted tensor.
  template <class Make>
  Status EmitRows(const ConvertedTensor& tensor, int64_t step, OutputFile* file, Make make) {
    const size_t row_bytes = RowBytes(tensor.info);
    const int64_t num_rows = RowsOf(tensor.info);
    buffer_.clear();
    for (int64_t row = 0; row < num_rows; row += step) {
      const auto rows = static_cast<size_t>(std::min(step, num_rows - row));
      const size_t filled = buffer_.size();
      buffer_.resize(filled + rows * row_bytes);
      DSV4_TRY(make(row, std::span(buffer_).subspan(filled)));
      if (buffer_.size() < kPieceBytes && row + step < num_rows) continue;
      DSV4_TRY(WritePiece(buffer_, file));
      buffer_.clear();
    }
    return {};
  }

  // `out` is bf16. A product of an E4M3 value and a power of two is exact.
  void DequantizeRow(const ConvertedTensor& tensor, int64_t row, std::span<std::byte> out) const {
    const int64_t source_row = tensor.first_row + row;
    const auto codes = RowOf(*tensor.source, source_row);
    const auto scales = RowOf(*tensor.scale, source_row / rules_.block_rows);
    for (size_t col = 0; col < codes.size(); ++col) {
      const size_t block = col / static_cast<size_t>(rules_.block_cols);
      float scale = 0;
      if (tensor.scale->dtype == DType::kF32) {
        std::memcpy(&scale, scales.data() + 4 * block, 4);
      } else {
        scale = DecodeE8m0(static_cast<uint8_t>(scales[block]));
      }
      const Bf16 value = ToBf16(kE4m3Values[static_cast<uint8_t>(codes[col])] * scale);
      std::memcpy(out.data() + 2 * col, &value, 2);
    }
  }

  Status WritePiece(std::span<const std::byte> bytes, OutputFile* file) {
    if (options_.stop != nullptr && options_.stop->load()) return Failed("interrupted");
    DSV4_TRY(file->Write(bytes));
    written_ += bytes.size();
    progress_.Update(written_);
    return {};
  }

  const ConvertOptions& options_;
  const ConvertRules& rules_;
  Progress& progress_;
  std::vector<std::byte> buffer_;
  uint64_t written_ = 0;
};

// config.json of the source, or nullopt where there is none.
Result<std::optional<json::Value>> ReadConfig(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  DSV4_ASSIGN(const MappedFile file, MappedFile::Open(path));
  const auto bytes = file.bytes();
  auto config = json::Parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!config) return Within(path.string(), std::move(config).error());
  if (!config->is_object()) return BadInput("{}: expected an object", path.string());
  return std::move(*config);
}

Result<int64_t> NumExperts(const ConvertOptions& options, const json::Value* config) {
  const json::Value* const stated = config != nullptr ? config->Find("n_routed_experts") : nullptr;
  const auto number = stated != nullptr ? stated->to_int64() : std::nullopt;
  if (number && options.num_experts != 0 && options.num_experts != *number) {
    return UsageError("--n-experts {}, but config.json has {}", options.num_experts, *number);
  }
  if (!number && options.num_experts == 0) {
    return UsageError("--n-experts is required where no config.json states n_routed_experts");
  }
  return number.value_or(options.num_experts);
}

Result<ConvertRules> RulesOf(const ConvertOptions& options, const json::Value* config) {
  ConvertRules rules;
  DSV4_ASSIGN(rules.num_experts, NumExperts(options, config));
  rules.world = options.world;
  rules.fp8_experts = options.fp8_experts;
  if (options.world < 1 || rules.num_experts < 1) {
    return UsageError("expected at least one expert and one rank, found {} and {}",
                      rules.num_experts, options.world);
  }
  if (rules.num_experts % options.world != 0) {
    return UsageError("{} experts cannot be divided over {} ranks", rules.num_experts,
                      options.world);
  }
  const json::Value* const quantization = config ? config->Find("quantization_config") : nullptr;
  const json::Value* const block =
      quantization != nullptr ? quantization->Find("weight_block_size") : nullptr;
  if (block == nullptr) return rules;
  const auto sizes = block->is_array() ? block->items() : json::Value::Array();
  const auto rows = sizes.size() == 2 ? sizes[0].to_int64() : std::nullopt;
  const auto cols = sizes.size() == 2 ? sizes[1].to_int64() : std::nullopt;
  if (!rows || !cols || *rows < 1 || *cols < 1) {
    return BadInput("{}: weight_block_size: expected two positive integers, found {}",
                    (options.source / "config.json").string(), json::DumpCompact(*block));
  }
  rules.block_rows = *rows;
  rules.block_cols = *cols;
  return rules;
}

Status CopyCompanions(const ConvertOptions& options, std::optional<json::Value> config,
                      const fs::path& out) {
  for (const char* const name :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    std::error_code error;
    if (!fs::exists(options.source / name, error)) continue;
    fs::copy_file(options.source / name, out / name, error);
    if (error) {
      return Failed("{}: cannot be copied: {}", (options.source / name).string(), error.message());
    }
  }
  if (!config) return {};
  if (options.fp8_experts) config->Set("expert_dtype", json::Value::String("fp8"));
  return WriteTextFile(out / "config.json", json::Dump(*config) + "\n");
}

// Also where a link leads there or the folder is mounted twice.
bool IsInside(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  fs::path part = fs::weakly_canonical(fs::absolute(path, error), error);
  for (; part.has_relative_path(); part = part.parent_path()) {
    if (fs::equivalent(part, folder, error)) return true;
  }
  return false;
}

// What replaces its own source loses it.
Status CheckApart(const ConvertOptions& options, const Checkpoint& checkpoint) {
  const std::string out = options.out.string();
  if (IsInside(options.out, options.source)) {
    return UsageError("{}: expected a folder outside the source, {}", out, options.source.string());
  }
  std::vector<fs::path> sources = checkpoint.files();
  sources.push_back(options.source);
  for (const fs::path& source : sources) {
    if (!IsInside(source, options.out)) continue;
    return UsageError("{}: expected a folder without the source, but {} is in it", out,
                      source.string());
  }
  return {};
}

uint64_t DataBytes(std::span<const ConvertedTensor> tensors) {
  uint64_t sum = 0;
  for (const ConvertedTensor& tensor : tensors) {
    sum += BytesOfShape(tensor.info.dtype, tensor.info.shape).value();
  }
  return sum;
}

}  // namespace

Status ConvertCheckpoint(const ConvertOptions& options, Progress& progress) {
  DSV4_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(options.source, {.join = false}));
  if (const int world = checkpoint.converted_world().value_or(1); world > 1) {
    return BadInput("{}: is converted for {} ranks already", options.source.string(), world);
  }
  DSV4_TRY(CheckApart(options, checkpoint));
  DSV4_ASSIGN(const TensorsByName tensors, TensorsByCanonicalName(checkpoint));
  DSV4_ASSIGN(std::optional<json::Value> config, ReadConfig(options.source));
  DSV4_ASSIGN(const ConvertRules rules, RulesOf(options, config ? &*config : nullptr));
  std::vector<std::vector<ConvertedTensor>> plans;
  uint64_t total = 0;
  for (int rank = 0; rank < options.world; ++rank) {
    DSV4_ASSIGN(plans.emplace_back(), PlanConversion(checkpoint, tensors, rules, rank));
    total += DataBytes(plans.back());
  }
  DSV4_ASSIGN(OutputFolder folder,
              OutputFolder::Create(options.out, options.replace ? OutputFolder::Existing::kReplace
                                                                : OutputFolder::Existing::kEmpty));
  DSV4_TRY(folder.CheckSpace(total));
  progress.Start("convert", total);
  Emitter emitter(options, rules, progress);
  Status status;
  for (size_t rank = 0; rank < plans.size() && status; ++rank) {
    const std::string name = fmt::format("model{}-mp{}.safetensors", rank, options.world);
    status = emitter.WriteFile(folder.temporary() / name, plans[rank]);
  }
  progress.Finish();
  DSV4_TRY(status);
  DSV4_TRY(CopyCompanions(options, std::move(config), folder.temporary()));
  return folder.Commit();
}

}  // namespace dsv4
