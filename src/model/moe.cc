#include "model/moe.h"

#include <algorithm>

namespace dsv4::model {
namespace {

kernels::ScoreFunction FunctionOf(RouterScore score) {
  switch (score) {
    case RouterScore::kSqrtSoftplus:
      return kernels::ScoreFunction::kSqrtSoftplus;
    case RouterScore::kSigmoid:
      return kernels::ScoreFunction::kSigmoid;
    case RouterScore::kSoftmax:
      return kernels::ScoreFunction::kSoftmax;
  }
  return kernels::ScoreFunction::kSqrtSoftplus;
}

}  // namespace

void Moe(const Step& step, const MoeWeights& weights, int32_t block, const Bf16* x, Bf16* y) {
  const Workspace::Scope scope(step.workspace);
  const ModelConfig& config = step.config;
  const int64_t num_rows = step.num_rows();
  SublayerInput input(step, x, num_rows, config.hidden_size);

  float* z = step.workspace.Take<float>(num_rows * config.num_routed_experts);
  step.ops.LinearF32(input.For(weights.gate), weights.gate, z);
  RouteRowsArgs route;
  route.z = z;
  route.num_rows = num_rows;
  route.num_experts = config.num_routed_experts;
  route.num_chosen = config.num_activated_experts;
  route.function = FunctionOf(config.router_score);
  route.bias = weights.bias.empty() ? nullptr : weights.bias.data();
  route.tid2eid = weights.tid2eid.empty() ? nullptr : weights.tid2eid.data();
  route.tokens = step.batch.tokens.data();
  route.route_scale = config.route_scale;
  route.chosen = step.workspace.Take<int32_t>(num_rows * route.num_chosen);
  route.weights = step.workspace.Take<float>(num_rows * route.num_chosen);
  step.ops.Route(route, step.workspace);
  step.Tap(block, "router_idx", DType::kI32, {num_rows, route.num_chosen}, route.chosen);
  step.Tap(block, "router_w", DType::kF32, {num_rows, route.num_chosen}, route.weights);

  float* sum = step.workspace.Take<float>(num_rows * config.hidden_size);
  std::fill_n(sum, num_rows * config.hidden_size, 0.0f);
  ExpertsArgs routed;
  routed.x = input.For(weights.experts[0].w1);
  routed.experts = weights.experts;
  routed.chosen = route.chosen;
  routed.weights = route.weights;
  routed.num_chosen = route.num_chosen;
  routed.hidden_spec = step.SpecFor(weights.experts[0].w2);
  routed.swiglu_limit = config.swiglu_limit;
  routed.out = sum;
  routed.read_ahead = step.read_ahead;
  if (!step.asked_experts.empty()) {
    routed.asked = &step.asked_experts[static_cast<size_t>(block) * weights.experts.size()];
  }
  step.ops.Experts(routed, step.workspace);

  ExpertsArgs shared = routed;
  shared.x = input.For(weights.shared.w1);
  shared.experts = {&weights.shared, 1};
  int32_t* first = step.workspace.Take<int32_t>(num_rows);
  std::fill_n(first, num_rows, 0);
  shared.chosen = first;
  shared.weights = nullptr;
  shared.num_chosen = 1;
  shared.read_ahead = nullptr;
  shared.hidden_spec = step.SpecFor(weights.shared.w2);
  step.ops.Experts(shared, step.workspace);
  step.ops.Round(sum, num_rows * config.hidden_size, y);
}

}  // namespace dsv4::model
