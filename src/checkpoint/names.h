// Tensor names: releases and tools spell them differently, the engine knows one spelling.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace dsv4 {

// The canonical name: a leading "model." goes, then each part between dots is replaced where the
// table of names.cc has it:
//
//   embed_tokens → embed      lm_head → head       self_attn → attn     mlp → ffn
//   input_layernorm → attn_norm                    post_attention_layernorm → ffn_norm
//   q_a_proj → wq_a           q_b_proj → wq_b      q_a_layernorm → q_norm
//   kv_a_proj_with_mqa → wkv  kv_proj → wkv        kv_a_layernorm → kv_norm
//   o_a_proj → wo_a           o_b_proj → wo_b      o_proj → wo_b
//   gate_proj → w1            down_proj → w2       up_proj → w3
//   weight_scale_inv → scale                       e_score_correction_bias → bias
//
// Canonical names stay as they are.
std::string CanonicalName(std::string_view name);

// Whether the engine ignores the tensor of this canonical name: mtp.N.emb… and mtp.N.head.weight
// repeat the main model's.
bool IsIgnoredTensor(std::string_view canonical_name);

// The tensors of a checkpoint by canonical name; they live as long as the checkpoint. Two tensors
// whose names mean the same are an error that names both.
using TensorsByName = std::unordered_map<std::string, const TensorInfo*>;
Result<TensorsByName> TensorsByCanonicalName(const Checkpoint& checkpoint);

}  // namespace dsv4
