#include "checkpoint/names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dsv4 {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kParts = {{
    {"embed_tokens", "embed"},
    {"lm_head", "head"},
    {"self_attn", "attn"},
    {"mlp", "ffn"},
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"q_a_proj", "wq_a"},
    {"q_a_layernorm", "q_norm"},
    {"q_b_proj", "wq_b"},
    {"kv_a_proj_with_mqa", "wkv"},
    {"kv_proj", "wkv"},
    {"kv_a_layernorm", "kv_norm"},
    {"o_a_proj", "wo_a"},
    {"o_b_proj", "wo_b"},
    {"o_proj", "wo_b"},
    {"gate_proj", "w1"},
    {"down_proj", "w2"},
    {"up_proj", "w3"},
    {"weight_scale_inv", "scale"},
    {"e_score_correction_bias", "bias"},
}};

std::string_view CanonicalPart(std::string_view part) {
  const auto* const found = std::find_if(kParts.begin(), kParts.end(),
                                         [part](const auto& row) { return row.first == part; });
  return found == kParts.end() ? part : found->second;
}

}  // namespace

std::string CanonicalName(std::string_view name) {
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  std::string canonical;
  canonical.reserve(name.size());
  while (true) {
    const size_t dot = name.find('.');
    canonical += CanonicalPart(name.substr(0, dot));
    if (dot == std::string_view::npos) return canonical;
    canonical += '.';
    name.remove_prefix(dot + 1);
  }
}

bool IsIgnoredTensor(std::string_view canonical_name) {
  constexpr std::string_view kMtp = "mtp.";
  if (!canonical_name.starts_with(kMtp)) return false;
  const size_t dot = canonical_name.find('.', kMtp.size());
  if (dot == std::string_view::npos) return false;
  const std::string_view rest = canonical_name.substr(dot + 1);
  return rest.starts_with("emb") || rest == "head.weight";
}

Result<TensorsByName> TensorsByCanonicalName(const Checkpoint& checkpoint) {
  TensorsByName tensors;
  tensors.reserve(checkpoint.tensors().size());
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto [place, is_new] = tensors.try_emplace(CanonicalName(tensor.name), &tensor);
    if (!is_new) {
      return BadInput("{}: tensors {} and {} both mean {}", checkpoint.folder().string(),
                      place->second->name, tensor.name, place->first);
    }
  }
  return tensors;
}

}  // namespace dsv4
