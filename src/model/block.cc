#include "model/block.h"

#include "model/attention.h"
#include "model/moe.h"

namespace dsv4::model {
namespace {

// x = hc_pre(h), normed; returns the mixing weights for hc_post.
struct SublayerState {
  Bf16* x = nullptr;      // [T, hidden]
  float* post = nullptr;  // [T, hc]
  float* comb = nullptr;  // [T, hc, hc]
};

SublayerState EnterSublayer(const Step& step, const HyperWeights& hc, std::span<const Bf16> norm,
                            const Bf16* h) {
  const ModelConfig& config = step.config;
  const int64_t num_rows = step.num_rows();
  SublayerState state;
  state.x = step.workspace.Take<Bf16>(num_rows * config.hidden_size);
  state.post = step.workspace.Take<float>(num_rows * config.hc_mult);
  state.comb = step.workspace.Take<float>(num_rows * config.hc_mult * config.hc_mult);
  HyperPreArgs args;
  args.h = h;
  args.num_rows = num_rows;
  args.hc = config.hc_mult;
  args.dim = config.hidden_size;
  args.fn = hc.fn;
  args.base = hc.base.data();
  args.scale = hc.scale.data();
  args.sinkhorn_iters = config.hc_sinkhorn_iters;
  args.norm_eps = config.norm_eps;
  args.hc_eps = config.hc_eps;
  args.x = state.x;
  args.post = state.post;
  args.comb = state.comb;
  step.ops.HyperPre(args, step.workspace);
  step.ops.RmsNorm(state.x, norm.data(), num_rows, config.hidden_size, config.norm_eps, state.x);
  return state;
}

void LeaveSublayer(const Step& step, const SublayerState& state, const Bf16* y, Bf16* h) {
  step.ops.HyperPost(y, state.post, state.comb, step.num_rows(), step.config.hc_mult,
                     step.config.hidden_size, h);
}

}  // namespace

void RunBlock(const Step& step, const BlockWeights& weights, int32_t block, Bf16* h) {
  const Workspace::Scope scope(step.workspace);
  const int64_t num_rows = step.num_rows();
  const int64_t hidden = step.config.hidden_size;
  Bf16* y = step.workspace.Take<Bf16>(num_rows * hidden);

  const SublayerState attn = EnterSublayer(step, weights.hc_attn, weights.attn_norm, h);
  Attention(step, weights.attn, block, attn.x, y);
  step.Tap(block, "attn_out", DType::kBF16, {num_rows, hidden}, y);
  LeaveSublayer(step, attn, y, h);

  const SublayerState ffn = EnterSublayer(step, weights.hc_ffn, weights.ffn_norm, h);
  Moe(step, weights.ffn, block, ffn.x, y);
  step.Tap(block, "ffn_out", DType::kBF16, {num_rows, hidden}, y);
  LeaveSublayer(step, ffn, y, h);
  step.Tap(block, "H", DType::kBF16, {num_rows, step.config.hc_mult, hidden}, h);
}

}  // namespace dsv4::model
