#include "kernels/ref/ref.h"

namespace dsv4::kernels::ref {

const Kernels& Table() {
  static constexpr Kernels kTable = {
      .name = "ref",
      .act_quant = ActQuant,
      .act_quant_in_place = ActQuantInPlace,
      .pack_index_rows = PackIndexRows,
      .unpack_index_rows = UnpackIndexRows,
      .pack_kv_rows = PackKvRows,
      .unpack_kv_rows = UnpackKvRows,
      .prepared_row_bytes = PreparedRowBytes,
      .prepare = Prepare,
      .product = Product,
      .rms_norm = RmsNorm,
      .rms_factor = RmsFactor,
      .rope = Rope,
      .hadamard = Hadamard,
      .hc_split = HcSplit,
      .hc_head_pre = HcHeadPre,
      .hc_combine = HcCombine,
      .hc_post = HcPost,
      .sparse_attention_scratch_bytes = SparseAttentionScratchBytes,
      .sparse_attention = SparseAttention,
      .index_scores = IndexScores,
      .top_k = TopK,
      .pool = Pool,
      .route = Route,
      .swiglu = Swiglu,
  };
  return kTable;
}

}  // namespace dsv4::kernels::ref
