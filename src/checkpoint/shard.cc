#include "checkpoint/shard.h"

#include <charconv>

namespace dsv4 {
namespace {

constexpr std::string_view kExperts = ".ffn.experts.";

std::string_view WithoutSuffix(std::string_view name, std::string_view suffix) {
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

}  // namespace

std::optional<int64_t> ExpertOf(std::string_view canonical_name) {
  const size_t place = canonical_name.find(kExperts);
  if (place == std::string_view::npos) return std::nullopt;
  const std::string_view rest = canonical_name.substr(place + kExperts.size());
  int64_t expert = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), expert);
  if (error != std::errc() || end == rest.data() + rest.size() || *end != '.' || expert < 0) {
    return std::nullopt;
  }
  return expert;
}

ShardAxis ShardAxisOf(std::string_view canonical_name) {
  if (ExpertOf(canonical_name)) return ShardAxis::kExperts;
  const std::string_view stem = WithoutSuffix(WithoutSuffix(canonical_name, ".weight"), ".scale");
  if (stem == "embed" || stem == "head") return ShardAxis::kRows;
  const std::string_view last = stem.substr(stem.rfind('.') + 1);
  if (last == "wo_b") return ShardAxis::kColumns;
  const bool rows =
      last == "wq_b" || last == "wo_a" || last == "attn_sink" || last == "weights_proj";
  return rows ? ShardAxis::kRows : ShardAxis::kWhole;
}

Result<ShardRange> ShardRangeOf(int64_t extent, int rank, int world) {
  if (extent % world != 0) return UsageError("{} cannot be divided over {} ranks", extent, world);
  const int64_t part = extent / world;
  return ShardRange{rank * part, (rank + 1) * part};
}

}  // namespace dsv4
