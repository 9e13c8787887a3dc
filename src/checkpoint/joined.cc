#include "checkpoint/joined.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/list_text.h"
#include "checkpoint/header.h"
#include "checkpoint/names.h"
#include "checkpoint/shard.h"
#include "platform/memory_info.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAlignment = 64;
constexpr size_t kMissingNamed = 10;
// Norms, biases and the like: a few MB a rank in all, so that looking at them costs no time.
constexpr size_t kLargestCompared = 65536;

// One tensor of the model.
struct Group {
  std::string name;  // canonical
  ShardAxis axis = ShardAxis::kWhole;
  std::vector<const TensorInfo*> parts;  // by rank; of an expert the only one
};

class Joiner {
 public:
  Joiner(std::span<const TensorInfo> parts, std::span<const fs::path> files)
      : parts_(parts), files_(files) {}

  Status Gather();
  Status CheckComplete() const;
  Status CheckExperts() const;
  Result<JoinedTensors> Join() const;

 private:
  // Where a part goes in the memory of all joined tensors.
  struct Place {
    const TensorInfo* part = nullptr;
    size_t offset = 0;
    size_t row_bytes = 0;
    size_t stride = 0;
  };

  Status CheckAgreement(const Group& group) const;
  // Appends the parts' places from `offset` on, and returns the joined tensor without its data.
  Result<TensorInfo> JoinParts(const Group& group, size_t offset, std::vector<Place>* places) const;
  std::string NameOf(const TensorInfo& part) const {
    return fmt::format("{}: tensor {}", files_[part.file].string(), part.name);
  }

  std::span<const TensorInfo> parts_;
  std::span<const fs::path> files_;
  std::vector<Group> groups_;
};

bool IsDivided(ShardAxis axis) { return axis == ShardAxis::kRows || axis == ShardAxis::kColumns; }

Status Joiner::Gather() {
  std::unordered_map<std::string_view, size_t> by_name;
  by_name.reserve(parts_.size());
  for (const TensorInfo& part : parts_) {
    const auto [place, is_new] = by_name.try_emplace(part.name, groups_.size());
    if (is_new) {
      std::string name = CanonicalName(part.name);
      if (IsIgnoredTensor(name)) {
        by_name.erase(place);
        continue;
      }
      const ShardAxis axis = ShardAxisOf(name);
      groups_.push_back({std::move(name), axis, {}});
    }
    Group& group = groups_[place->second];
    if (!is_new && group.axis == ShardAxis::kExperts) {
      return BadInput("{} stands in {} too", NameOf(part),
                      files_[group.parts.front()->file].filename().string());
    }
    group.parts.push_back(&part);
  }
  return {};
}

Status Joiner::CheckComplete() const {
  for (uint32_t rank = 0; rank < files_.size(); ++rank) {
    std::vector<std::string> missing;
    for (const Group& group : groups_) {
      if (group.axis == ShardAxis::kExperts || group.parts.size() == files_.size()) continue;
      const bool has = std::ranges::any_of(
          group.parts, [rank](const TensorInfo* part) { return part->file == rank; });
      if (!has) missing.push_back(group.parts.front()->name);
    }
    if (missing.empty()) continue;
    return BadInput("{}: {} tensors that other ranks have are missing: {}", files_[rank].string(),
                    missing.size(), ListText(missing, kMissingNamed));
  }
  return {};
}

// A gate has a row for each of its layer's experts.
Status Joiner::CheckExperts() const {
  constexpr std::string_view kGate = ".gate.weight";
  std::unordered_map<std::string_view, int64_t> num_experts;  // by the gate's name before that
  for (const Group& group : groups_) {
    const std::vector<int64_t>& shape = group.parts.front()->shape;
    if (!group.name.ends_with(kGate) || shape.empty()) continue;
    num_experts.emplace(std::string_view(group.name).substr(0, group.name.size() - kGate.size()),
                        shape[0]);
  }
  for (const Group& group : groups_) {
    if (group.axis != ShardAxis::kExperts) continue;
    const TensorInfo& part = *group.parts.front();
    const std::string_view name = group.name;
    const auto found = num_experts.find(name.substr(0, name.find(".experts.")));
    if (found == num_experts.end()) continue;
    const auto range =
        ShardRangeOf(found->second, static_cast<int>(part.file), static_cast<int>(files_.size()));
    if (!range) return Within(NameOf(part) + ": experts", range.error());
    const int64_t expert = *ExpertOf(name);
    if (expert >= range->begin && expert < range->end) continue;
    return BadInput(
        "{}: expected experts {} to {} in this rank, found expert {} (is it another "
        "rank's file?)",
        NameOf(part), range->begin, range->end - 1, expert);
  }
  return {};
}

Status Joiner::CheckAgreement(const Group& group) const {
  const TensorInfo& first = *group.parts.front();
  for (const TensorInfo* const part : group.parts) {
    if (part->dtype == first.dtype && part->shape == first.shape) continue;
    return BadInput("{}: expected {} as in {}, found {}", NameOf(*part), first.TypeText(),
                    files_[first.file].filename().string(), part->TypeText());
  }
  return {};
}

Result<TensorInfo> Joiner::JoinParts(const Group& group, size_t offset,
                                     std::vector<Place>* places) const {
  const TensorInfo& first = *group.parts.front();
  const size_t axis = group.axis == ShardAxis::kRows ? 0 : 1;
  if (first.shape.size() <= axis) {
    return BadInput("{}: expected at least {} axes, found {}", NameOf(first), axis + 1,
                    first.TypeText());
  }
  TensorInfo joined = first;
  joined.data = {};
  joined.num_parts = static_cast<int>(group.parts.size());
  if (__builtin_mul_overflow(first.shape[axis], group.parts.size(), &joined.shape[axis]) ||
      !BytesOfShape(joined.dtype, joined.shape)) {
    return BadInput("{}: {} times {} is more than can be counted", NameOf(first), first.TypeText(),
                    group.parts.size());
  }
  // By rows a part is one piece; by columns it is a piece of each row.
  const auto num_pieces = axis == 0 ? size_t{1} : static_cast<size_t>(first.shape[0]);
  const size_t row_bytes = num_pieces == 0 ? 0 : first.data.size() / num_pieces;
  if (row_bytes * num_pieces != first.data.size()) {
    return BadInput("{}: expected rows of whole bytes, found {}", NameOf(first), first.TypeText());
  }
  for (const TensorInfo* const part : group.parts) {
    places->push_back({part, offset, row_bytes, row_bytes * group.parts.size()});
    offset += row_bytes;
  }
  return joined;
}

Result<JoinedTensors> Joiner::Join() const {
  JoinedTensors joined;
  std::vector<Place> places;
  std::vector<std::pair<size_t, size_t>> divided;  // index into joined.tensors, offset
  size_t bytes = 0;
  for (const Group& group : groups_) {
    DSV4_TRY(CheckAgreement(group));
    if (!IsDivided(group.axis)) {
      const TensorInfo* const first = group.parts.front();
      joined.tensors.push_back(*first);
      for (const TensorInfo* const part : group.parts) {
        if (part == first || part->data.size() > kLargestCompared) continue;
        joined.replicas.push_back({first, part});
      }
      continue;
    }
    DSV4_ASSIGN(TensorInfo tensor, JoinParts(group, bytes, &places));
    divided.emplace_back(joined.tensors.size(), bytes);
    const size_t end = bytes + group.parts.front()->data.size() * group.parts.size();
    bytes = (end + kAlignment - 1) / kAlignment * kAlignment;
    joined.tensors.push_back(std::move(tensor));
  }
  DSV4_ASSIGN(joined.memory,
              Buffer::Reserve(static_cast<int64_t>(bytes), "joined tensors", Buffer::Pages::kHuge));
  for (const auto& [index, offset] : divided) {
    TensorInfo& tensor = joined.tensors[index];
    const auto size = BytesOfShape(tensor.dtype, tensor.shape).value();
    tensor.data = {joined.memory.data() + offset, size};
  }
  // File by file, and in each from its beginning to its end.
  std::ranges::sort(places, {}, [](const Place& place) {
    return std::pair(place.part->file, place.part->data.data());
  });
  for (const Place& place : places) {
    if (place.row_bytes == 0) continue;
    joined.copies.push_back(
        {place.part->data, joined.memory.data() + place.offset, place.row_bytes, place.stride});
  }
  return joined;
}

}  // namespace

Result<JoinedTensors> JoinTensors(std::span<const TensorInfo> parts,
                                  std::span<const fs::path> files) {
  Joiner joiner(parts, files);
  DSV4_TRY(joiner.Gather());
  DSV4_TRY(joiner.CheckComplete());
  DSV4_TRY(joiner.CheckExperts());
  return joiner.Join();
}

Status CopyParts(const JoinedTensors& joined, std::span<const fs::path> files) {
  DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
  if (joined.memory.bytes() > memory.available_bytes) {
    return DoesNotFit(
        "{}: {} MiB of tensors that are divided over ranks must be joined in memory, {} MiB are "
        "available; a checkpoint converted for one rank (--model-parallel 1) is only mapped",
        files.front().parent_path().string(), joined.memory.bytes() >> 20,
        memory.available_bytes >> 20);
  }
  for (const auto& [first, other] : joined.replicas) {
    if (std::ranges::equal(first->data, other->data)) continue;
    return BadInput(
        "{}: tensor {}: expected the bytes that {} has, found others (are they ranks "
        "of one conversion?)",
        files[other->file].string(), other->name, files[first->file].filename().string());
  }
  for (const JoinedTensors::Copy& copy : joined.copies) {
    const std::byte* const end = copy.part.data() + copy.part.size();
    std::byte* to = copy.to;
    for (const std::byte* from = copy.part.data(); from != end; from += copy.row_bytes) {
      std::memcpy(to, from, copy.row_bytes);
      to += copy.stride;
    }
  }
  return {};
}

}  // namespace dsv4
