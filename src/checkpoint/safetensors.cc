#include "checkpoint/safetensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/list_text.h"
#include "base/read_file.h"
#include "checkpoint/header.h"
#include "checkpoint/index.h"
#include "checkpoint/joined.h"
#include "platform/file_pages.h"
#include "platform/mmap_file.h"
#include "platform/output_file.h"

namespace dsv4 {

namespace fs = std::filesystem;

struct Checkpoint::Impl {
  fs::path folder;
  std::vector<fs::path> files;
  std::vector<MappedFile> maps;
  std::vector<TensorInfo> file_tensors;
  std::optional<JoinedTensors> joined;                   // of several ranks
  std::unordered_map<std::string_view, size_t> by_name;  // views of tensors()[i].name
  uint64_t data_bytes = 0;
  std::optional<int> rank;
  std::optional<int> world;

  const std::vector<TensorInfo>& tensors() const { return joined ? joined->tensors : file_tensors; }

  Status AddFile(const fs::path& path);
  Status IndexNames();
  Status CheckAgainst(const CheckpointIndex& index) const;
};

namespace {

constexpr size_t kLengthBytes = 8;
constexpr int kMostRanks = 1024;

// "model{rank}-mp{world}.safetensors"
struct ConvertedName {
  int rank = 0;
  int world = 1;
};

std::optional<ConvertedName> ParseConvertedName(std::string_view name) {
  ConvertedName parsed;
  const auto literal = [&name](std::string_view text) {
    if (!name.starts_with(text)) return false;
    name.remove_prefix(text.size());
    return true;
  };
  const auto number = [&name](int* value) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), *value);
    if (error != std::errc() || *value < 0) return false;
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    return true;
  };
  const bool matches = literal("model") && number(&parsed.rank) && literal("-mp") &&
                       number(&parsed.world) && name == ".safetensors";
  if (!matches || parsed.world < 1 || parsed.world > kMostRanks) return std::nullopt;
  return parsed;
}

Result<std::vector<std::string>> FileNames(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  if (error) return Failed("{}: cannot be listed: {}", folder.string(), error.message());
  std::sort(names.begin(), names.end());
  return names;
}

// The world size of the converted files in `names`, or nullopt where there are none.
Result<std::optional<int>> ConvertedWorld(const fs::path& folder,
                                          const std::vector<std::string>& names) {
  std::set<int> worlds;
  for (const std::string& name : names) {
    if (const auto parsed = ParseConvertedName(name)) worlds.insert(parsed->world);
  }
  if (worlds.empty()) return std::optional<int>();
  if (worlds.size() > 1) {
    return BadInput("{}: expected one conversion, found model*-mp{}.safetensors", folder.string(),
                    fmt::join(worlds, " and -mp"));
  }
  return std::optional<int>(*worlds.begin());
}

Status CheckPresent(const fs::path& folder, const std::vector<std::string>& files) {
  std::vector<std::string> missing;
  for (const std::string& file : files) {
    std::error_code error;
    if (!fs::exists(folder / file, error)) missing.push_back(file);
  }
  if (missing.empty()) return {};
  return BadInput("{}: {} of {} shards missing: {}", folder.string(), missing.size(), files.size(),
                  fmt::join(missing, ", "));
}

// What a folder holds: the files to open, in order, and what else is known about them.
struct Contents {
  std::vector<std::string> files;
  std::optional<CheckpointIndex> index;
  std::optional<int> world;  // of a converted checkpoint
};

// `rank`: of a converted checkpoint this one's file alone.
Result<Contents> FindContents(const fs::path& folder, std::optional<int> rank) {
  Contents contents;
  std::error_code error;
  if (fs::exists(folder / kIndexFile, error)) {
    DSV4_ASSIGN(const MappedFile map, MappedFile::Open(folder / kIndexFile));
    auto index =
        ParseIndex({reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()});
    if (!index) return Within((folder / kIndexFile).string(), std::move(index).error());
    contents.files = index->files;
    contents.index = std::move(*index);
    DSV4_TRY(CheckPresent(folder, contents.files));
    return contents;
  }
  if (fs::exists(folder / "model.safetensors", error)) {
    contents.files = {"model.safetensors"};
    return contents;
  }
  DSV4_ASSIGN(const std::vector<std::string> names, FileNames(folder));
  DSV4_ASSIGN(contents.world, ConvertedWorld(folder, names));
  if (!contents.world) {
    return BadInput(
        "{}: expected {}, model.safetensors or model{{rank}}-mp{{world}}.safetensors, found {}",
        folder.string(), kIndexFile, ListText(names, 12));
  }
  const int world = *contents.world;
  if (rank && (*rank < 0 || *rank >= world)) {
    return BadInput("{}: rank {} asked for, but the checkpoint is converted for ranks 0 to {}",
                    folder.string(), *rank, world - 1);
  }
  for (int r = rank.value_or(0); r < (rank ? *rank + 1 : world); ++r) {
    contents.files.push_back(fmt::format("model{}-mp{}.safetensors", r, world));
  }
  DSV4_TRY(CheckPresent(folder, contents.files));
  return contents;
}

}  // namespace

std::string TensorInfo::TypeText() const {
  const std::string text = fmt::format("{} [{}]", Name(dtype), fmt::join(shape, ", "));
  return num_parts == 1 ? text : fmt::format("{} (joined from {} ranks)", text, num_parts);
}

Status Checkpoint::Impl::AddFile(const fs::path& path) {
  DSV4_ASSIGN(MappedFile map, MappedFile::Open(path));
  const std::span<const std::byte> bytes = map.bytes();
  if (bytes.size() < kLengthBytes) {
    return BadInput("{}: expected at least {} bytes, found {} (is it truncated?)", path.string(),
                    kLengthBytes, bytes.size());
  }
  // Tensors near the header are not wanted yet.
  SetPageFaults(bytes, PageFault::kReadsOne);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length < 2 || length > bytes.size() - kLengthBytes) {
    return BadInput("{}: header length {}: expected 2 to {} in a file of {} bytes", path.string(),
                    length, bytes.size() - kLengthBytes, bytes.size());
  }
  ReadPagesAhead(bytes.first(kLengthBytes + length));
  const auto data = bytes.subspan(kLengthBytes + length);
  auto header = ParseSafetensorsHeader(bytes.subspan(kLengthBytes, length), data.size());
  if (!header) return Within(path.string(), std::move(header).error());
  SetPageFaults(bytes, PageFault::kReadsAround);
  for (size_t i = 0; i < header->tensors.size(); ++i) {
    TensorInfo& tensor = file_tensors.emplace_back(std::move(header->tensors[i]));
    const auto [begin, end] = header->ranges[i];
    tensor.data = data.subspan(begin, end - begin);
    tensor.file = static_cast<uint32_t>(files.size());
  }
  data_bytes += data.size();
  files.push_back(path);
  maps.push_back(std::move(map));
  return {};
}

Status Checkpoint::Impl::IndexNames() {
  const std::vector<TensorInfo>& all = tensors();
  by_name.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto [place, is_new] = by_name.try_emplace(all[i].name, i);
    if (!is_new) {
      return BadInput("{}: tensor {} stands in {} too", files[all[i].file].string(), all[i].name,
                      files[all[place->second].file].filename().string());
    }
  }
  return {};
}

Status Checkpoint::Impl::CheckAgainst(const CheckpointIndex& index) const {
  std::vector<std::string> absent;
  for (const CheckpointIndex::Entry& entry : index.entries) {
    const auto found = by_name.find(entry.tensor);
    if (found == by_name.end()) {
      absent.push_back(fmt::format("{} ({})", entry.tensor, index.files[entry.file]));
    } else if (const uint32_t file = tensors()[found->second].file; file != entry.file) {
      return BadInput("{}: tensor {}: expected in {}, found in {}", (folder / kIndexFile).string(),
                      entry.tensor, index.files[entry.file], index.files[file]);
    }
  }
  if (absent.empty()) return {};
  return BadInput("{}: {} tensors are not in the file they should be in: {}",
                  (folder / kIndexFile).string(), absent.size(), ListText(absent, 8));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::Open(const fs::path& file_or_folder, const Options& options) {
  auto impl = std::make_unique<Impl>();
  std::error_code error;
  const fs::file_status status = fs::status(file_or_folder, error);
  if (!fs::exists(status)) {
    return CannotBeOpened(file_or_folder, error.value());
  }
  if (!fs::is_directory(status)) {
    impl->folder = file_or_folder.parent_path();
    if (const auto converted = ParseConvertedName(file_or_folder.filename().string())) {
      impl->rank = converted->rank;
      impl->world = converted->world;
    }
    DSV4_TRY(impl->AddFile(file_or_folder));
    DSV4_TRY(impl->IndexNames());
    return Checkpoint(std::move(impl));
  }
  impl->folder = file_or_folder;
  DSV4_ASSIGN(const Contents contents, FindContents(file_or_folder, options.rank));
  impl->world = contents.world;
  if (contents.world) impl->rank = options.rank;
  if (contents.index) impl->file_tensors.reserve(contents.index->entries.size());
  for (const std::string& file : contents.files) {
    DSV4_TRY(impl->AddFile(file_or_folder / file));
  }
  if (contents.world && contents.files.size() > 1) {
    DSV4_ASSIGN(impl->joined, JoinTensors(impl->file_tensors, impl->files));
    if (options.join) DSV4_TRY(CopyParts(*impl->joined, impl->files));
  }
  DSV4_TRY(impl->IndexNames());
  if (contents.index) DSV4_TRY(impl->CheckAgainst(*contents.index));
  return Checkpoint(std::move(impl));
}

Result<std::vector<TensorInfo>> Checkpoint::ParseHeader(std::span<const std::byte> header_json,
                                                        uint64_t data_bytes) {
  DSV4_ASSIGN(ParsedHeader header, ParseSafetensorsHeader(header_json, data_bytes));
  return std::move(header.tensors);
}

const fs::path& Checkpoint::folder() const { return impl_->folder; }
const std::vector<fs::path>& Checkpoint::files() const { return impl_->files; }
const std::vector<TensorInfo>& Checkpoint::tensors() const { return impl_->tensors(); }
const std::vector<TensorInfo>& Checkpoint::file_tensors() const { return impl_->file_tensors; }
std::vector<std::span<const std::byte>> Checkpoint::mappings() const {
  std::vector<std::span<const std::byte>> mappings;
  for (const MappedFile& map : impl_->maps) mappings.push_back(map.bytes());
  return mappings;
}
uint64_t Checkpoint::data_bytes() const { return impl_->data_bytes; }
uint64_t Checkpoint::joined_bytes() const {
  return impl_->joined ? static_cast<uint64_t>(impl_->joined->memory.bytes()) : 0;
}
std::optional<int> Checkpoint::rank() const { return impl_->rank; }
std::optional<int> Checkpoint::converted_world() const { return impl_->world; }

const TensorInfo* Checkpoint::Find(std::string_view name) const {
  const auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? nullptr : &impl_->tensors()[found->second];
}

bool IsPackedFp4(const TensorInfo& tensor, int64_t rows, int64_t cols) {
  if (tensor.shape.size() != 2 || tensor.shape[0] != rows || cols % 2 != 0) return false;
  return (tensor.dtype == DType::kF4 && tensor.shape[1] == cols) ||
         (tensor.dtype == DType::kI8 && tensor.shape[1] == cols / 2);
}

Status WriteSafetensors(const fs::path& path, std::span<const TensorToWrite> tensors) {
  std::vector<TensorInfo> infos;
  std::unordered_set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return BadInput("{}: tensor {} stands twice", path.string(), tensor.name);
    }
    const auto bytes = BytesOfShape(tensor.dtype, tensor.shape);
    DSV4_CHECK(bytes && *bytes == tensor.data.size(), "tensor {} {} [{}]: data of {} bytes",
               tensor.name, Name(tensor.dtype), fmt::join(tensor.shape, ", "), tensor.data.size());
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, {}, 0});
  }
  DSV4_ASSIGN(OutputFile file, OutputFile::Create(path));
  DSV4_TRY(file.Write(SafetensorsHeader(infos)));
  for (const TensorToWrite& tensor : tensors) DSV4_TRY(file.Write(tensor.data));
  return file.Commit();
}

}  // namespace dsv4
