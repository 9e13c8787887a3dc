// The entries of a table other than products. Include it inside a target region, after the others.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

void UseRowEntries(Kernels* table) {
  table->act_quant = ActQuant;
  table->act_quant_in_place = ActQuantInPlace;
  table->pack_index_rows = PackIndexRows;
  table->unpack_index_rows = UnpackIndexRows;
  table->pack_kv_rows = PackKvRows;
  table->unpack_kv_rows = UnpackKvRows;
  table->rms_norm = RmsNorm;
  table->rms_factor = RmsFactor;
  table->rope = Rope;
  table->hadamard = Hadamard;
  table->hc_combine = HcCombine;
  table->hc_post = HcPost;
  table->sparse_attention_scratch_bytes = SparseAttentionScratchBytes;
  table->sparse_attention = SparseAttention;
  table->index_scores = IndexScores;
  table->top_k = TopK;
  table->pool = Pool;
  table->swiglu = Swiglu;
}

}  // namespace
}  // namespace dsv4::kernels::cpu
