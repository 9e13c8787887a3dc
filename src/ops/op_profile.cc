#include "ops/op_profile.h"

namespace dsv4 {

std::string_view Name(OpKind kind) {
  static constexpr std::array<std::string_view, kNumOpKinds> kNames = {
      "embed",       "rms_norm",   "prepare",   "linear_fp8",   "linear_fp4",
      "linear_bf16", "linear_f32", "hyper_pre", "hyper_post",   "hyper_head",
      "rope",        "hadamard",   "pack_rows", "attention",    "index_select",
      "pool",        "route",      "experts",   "experts_rest", "elementwise",
  };
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace dsv4
