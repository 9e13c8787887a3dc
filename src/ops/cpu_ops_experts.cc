#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu_ops_impl.h"
#include "platform/read_ahead.h"

namespace dsv4 {
namespace {

using Groups = ExpertGroups;

Groups GroupByExpert(const int32_t* chosen, int64_t num_rows, int64_t num_chosen,
                     int64_t num_experts, Workspace& workspace) {
  Groups groups;
  groups.num_pairs = num_rows * num_chosen;
  groups.begin = workspace.Take<int64_t>(num_experts + 1);
  groups.row = workspace.Take<int64_t>(groups.num_pairs);
  groups.slot = workspace.Take<int64_t>(groups.num_pairs);
  groups.place = workspace.Take<int64_t>(groups.num_pairs);
  groups.active = workspace.Take<int32_t>(num_experts);
  std::fill_n(groups.begin, num_experts + 1, 0);
  for (int64_t i = 0; i < groups.num_pairs; ++i) {
    DSV4_CHECK(chosen[i] >= 0 && chosen[i] < num_experts, "expert {} of {}", chosen[i],
               num_experts);
    ++groups.begin[chosen[i] + 1];
  }
  for (int64_t e = 0; e < num_experts; ++e) {
    if (groups.begin[e + 1] > 0) groups.active[groups.num_active++] = static_cast<int32_t>(e);
    groups.begin[e + 1] += groups.begin[e];
  }
  // Filling moves each start to its end, so that afterwards begin[e] is the end of e: shift back.
  for (int64_t i = 0; i < groups.num_pairs; ++i) {
    const int64_t pair = groups.begin[chosen[i]]++;
    groups.row[pair] = i / num_chosen;
    groups.slot[pair] = i % num_chosen;
    groups.place[i] = pair;
  }
  for (int64_t e = num_experts; e > 0; --e) groups.begin[e] = groups.begin[e - 1];
  groups.begin[0] = 0;
  return groups;
}

kernels::ProductArgs ProductOf(const PreparedRows& pairs, const ExpertSlice& slice,
                               const WeightView& weight) {
  kernels::ProductArgs args;
  args.prepared = pairs.data + slice.pair * pairs.row_bytes;
  args.num_rows = slice.num_pairs;
  args.activation = pairs.spec.activation;
  args.scale = pairs.spec.scale;
  args.block = pairs.spec.block;
  args.weight = &weight;
  args.begin = slice.begin;
  args.end = slice.end;
  args.output_stride = weight.rows;
  return args;
}

void AskFor(const WeightView& weight, ReadAhead& read_ahead) {
  read_ahead.Ask(weight.bytes());
  read_ahead.Ask(weight.scale_bytes());
}

// Asks for the weights of the active experts in the order in which Experts uses them; false where
// all are in memory.
bool AskForExperts(const ExpertsArgs& args, const Groups& groups) {
  if (args.read_ahead == nullptr) return false;
  const std::span active(groups.active, static_cast<size_t>(groups.num_active));
  const auto is_asked = [&](int32_t e) { return args.asked != nullptr && args.asked[e] != 0; };
  if (std::ranges::all_of(active, is_asked)) return false;
  args.read_ahead->Begin();
  for (const int32_t e : active) {
    if (is_asked(e)) continue;
    AskFor(args.experts[static_cast<size_t>(e)].w1, *args.read_ahead);
    AskFor(args.experts[static_cast<size_t>(e)].w3, *args.read_ahead);
  }
  for (const int32_t e : active) {
    if (!is_asked(e)) AskFor(args.experts[static_cast<size_t>(e)].w2, *args.read_ahead);
  }
  args.read_ahead->Go();
  if (args.asked != nullptr) {
    for (const int32_t e : active) args.asked[e] = 1;
  }
  return true;
}

}  // namespace

template <class Body>
void CpuOps::ForExpertSlices(const ExpertGroups& groups, int64_t num_weight_rows, int64_t products,
                             Body&& body) {
  const int64_t most_pairs = groups.num_pairs == groups.num_active ? 1 : groups.num_pairs;
  const int64_t slice_rows = std::min(
      ProductGrain(num_weight_rows * products * groups.num_active, most_pairs, num_threads()),
      num_weight_rows);
  const int64_t slices = (num_weight_rows + slice_rows - 1) / slice_rows;
  pool_.For(groups.num_active * slices * products, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      ExpertSlice slice;
      slice.expert = groups.active[task / (slices * products)];
      slice.product = task % products;
      slice.begin = task / products % slices * slice_rows;
      slice.end = std::min(slice.begin + slice_rows, num_weight_rows);
      slice.pair = groups.begin[slice.expert];
      slice.num_pairs = groups.begin[slice.expert + 1] - slice.pair;
      body(slice);
    }
  });
}

void CpuOps::Experts(const ExpertsArgs& args, Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  const int64_t num_experts = static_cast<int64_t>(args.experts.size());
  const int64_t dim = args.experts[0].w2.rows;
  const int64_t inner = args.experts[0].w1.rows;
  DSV4_CHECK(args.experts[0].w1.cols == args.x.cols, "{} columns, expert of {}", args.x.cols,
             args.experts[0].w1.cols);
  const Groups groups =
      GroupByExpert(args.chosen, args.x.num_rows, args.num_chosen, num_experts, workspace);
  const bool is_read = AskForExperts(args, groups);
  const auto used = [&](const WeightView& weight, const ExpertSlice& slice) {
    if (is_read) args.read_ahead->Used(weight.bytes_of_rows(slice.end - slice.begin));
  };
  const int64_t num_pairs = groups.num_pairs;
  float* weights = workspace.Take<float>(num_pairs);
  const PreparedRows gathered = GatherPairs(args, groups, weights, workspace);

  Bf16* gate = workspace.Take<Bf16>(num_pairs * inner);
  Bf16* up = workspace.Take<Bf16>(num_pairs * inner);
  {
    const WeightView& w1 = args.experts[0].w1;
    const Timed timed(profile_, OpKind::kExpertsProducts,
                      2 * groups.num_active * w1.bytes_of_rows(inner), 4 * num_pairs * inner * dim);
    ForExpertSlices(groups, inner, 2, [&](const ExpertSlice& slice) {
      const ExpertView& view = args.experts[static_cast<size_t>(slice.expert)];
      const bool is_up = slice.product == 1;
      const WeightView& weight = is_up ? view.w3 : view.w1;
      kernels::ProductArgs call = ProductOf(gathered, slice, weight);
      call.output = (is_up ? up : gate) + slice.pair * inner + slice.begin;
      kernels_.product(call);
      used(weight, slice);
    });
  }
  {
    const Timed timed(profile_, OpKind::kExpertsRest);
    ForRows(num_pairs, inner * 16, [&](int64_t begin, int64_t end, int) {
      kernels_.swiglu({gate + begin * inner, up + begin * inner, end - begin, inner,
                       args.swiglu_limit, weights + begin, gate + begin * inner});
    });
  }
  const PreparedRows hidden = Prepare(gate, num_pairs, inner, inner, args.hidden_spec, workspace);
  Bf16* outputs = workspace.Take<Bf16>(num_pairs * dim);
  {
    const WeightView& w2 = args.experts[0].w2;
    const Timed timed(profile_, OpKind::kExpertsProducts, groups.num_active * w2.bytes_of_rows(dim),
                      2 * num_pairs * inner * dim, /*calls=*/0);
    ForExpertSlices(groups, dim, 1, [&](const ExpertSlice& slice) {
      const WeightView& weight = args.experts[static_cast<size_t>(slice.expert)].w2;
      kernels::ProductArgs call = ProductOf(hidden, slice, weight);
      call.output = outputs + slice.pair * dim + slice.begin;
      kernels_.product(call);
      used(weight, slice);
    });
  }
  SumPairs(args, groups, outputs, dim);
}

PreparedRows CpuOps::GatherPairs(const ExpertsArgs& args, const ExpertGroups& groups,
                                 float* weights, Workspace& workspace) {
  const Timed timed(profile_, OpKind::kExpertsRest, /*bytes=*/0, /*flops=*/0, /*calls=*/0);
  PreparedRows gathered = args.x;
  std::byte* data = workspace.TakeBytes(groups.num_pairs * args.x.row_bytes);
  gathered.data = data;
  gathered.num_rows = groups.num_pairs;
  ForRows(groups.num_pairs, args.x.row_bytes, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(data + i * args.x.row_bytes, args.x.data + groups.row[i] * args.x.row_bytes,
                  static_cast<size_t>(args.x.row_bytes));
      weights[i] = args.weights != nullptr
                       ? args.weights[groups.row[i] * args.num_chosen + groups.slot[i]]
                       : 1.0f;
    }
  });
  return gathered;
}

void CpuOps::SumPairs(const ExpertsArgs& args, const ExpertGroups& groups, const Bf16* outputs,
                      int64_t dim) {
  const Timed timed(profile_, OpKind::kExpertsRest, /*bytes=*/0, /*flops=*/0, /*calls=*/0);
  ForRows(args.x.num_rows, dim * args.num_chosen, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      // Pairs are ordered by expert: visiting a row's pairs in ascending order sums its experts in
      // ascending order, whatever the router's order was.
      int64_t last = -1;
      for (int32_t k = 0; k < args.num_chosen; ++k) {
        int64_t next = groups.num_pairs;
        for (int32_t slot = 0; slot < args.num_chosen; ++slot) {
          const int64_t pair = groups.place[t * args.num_chosen + slot];
          if (pair > last && pair < next) next = pair;
        }
        for (int64_t i = 0; i < dim; ++i) args.out[t * dim + i] += ToFloat(outputs[next * dim + i]);
        last = next;
      }
    }
  });
}

void CpuOps::Route(const RouteRowsArgs& args, Workspace& workspace) {
  const Timed timed(profile_, OpKind::kRoute);
  const Workspace::Scope scope(workspace);
  float* scores = workspace.Take<float>(args.num_rows * args.num_experts);
  ForRows(args.num_rows, int64_t{args.num_experts} * 32, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      kernels::RouteArgs call;
      call.z = args.z + t * args.num_experts;
      call.num_experts = args.num_experts;
      call.num_chosen = args.num_chosen;
      call.function = args.function;
      call.bias = args.bias;
      if (args.tid2eid != nullptr) {
        call.fixed = args.tid2eid + int64_t{args.tokens[t]} * args.num_chosen;
      }
      call.route_scale = args.route_scale;
      call.scores = scores + t * args.num_experts;
      call.chosen = args.chosen + t * args.num_chosen;
      call.weights = args.weights + t * args.num_chosen;
      kernels_.route(call);
    }
  });
}

}  // namespace dsv4
