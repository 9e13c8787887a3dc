// The operations on activations: a token and a chunk of prefill, operands in the caches.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "ops/claims.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"
#include "tools/ops_cases.h"

namespace dsv4::tools {
namespace {

using kernels::Kernels;
using test::kPublished;
using test::ModelShapes;
using test::RandomBf16;
using test::RandomFloats;

constexpr float kEps = 1e-6f;

// Rows of an operation; a kernel sees rows [begin, end).
struct Rows {
  int64_t count = 0;
  int64_t width = 0;  // elements
};

// What one row costs: bytes and arithmetic.
struct RowCost {
  double bytes = 0;
  double flops = 0;
};

using RowCall = std::function<void(int64_t begin, int64_t end)>;

// `prepare(set)` gives the call.
template <class Prepare>
void Add(std::vector<PerfCase>* cases, const char* op, const std::string& name, const Rows& rows,
         const RowCost& cost, Prepare prepare) {
  PerfCase perf;
  perf.op = op;
  perf.name = fmt::format("{} {} x {}", name, rows.count, rows.width);
  perf.items = rows.count;
  perf.grain = [rows, cost](int num_threads) {
    return Grain(rows.count, static_cast<int64_t>(cost.bytes), num_threads);
  };
  perf.bytes = cost.bytes * static_cast<double>(rows.count);
  perf.flops = cost.flops * static_cast<double>(rows.count);
  perf.prepare = [prepare](const Kernels& set, int) -> PerfCall {
    const RowCall call = prepare(set);
    return [call](const std::byte*, int64_t begin, int64_t end, int) { call(begin, end); };
  };
  cases->push_back(std::move(perf));
}

template <class T>
std::shared_ptr<std::vector<T>> Share(std::vector<T> values) {
  return std::make_shared<std::vector<T>>(std::move(values));
}

void AddQuant(std::vector<PerfCase>* cases, const std::string& name, const Rows& rows) {
  const auto width = static_cast<double>(rows.width);
  Add(cases, "act_quant", name, rows, {3 * width, 2 * width}, [rows](const Kernels& set) {
    const auto x = Share(RandomBf16(rows.count * rows.width, 1));
    const auto codes = Share(std::vector<uint8_t>(x->size()));
    const int64_t blocks = rows.width / 128;
    const auto scales = Share(std::vector<float>(static_cast<size_t>(rows.count * blocks)));
    return [=, &set](int64_t begin, int64_t end) {
      set.act_quant(x->data() + begin * rows.width, end - begin, rows.width, 128,
                    kernels::ActScale::kPowerOfTwo, codes->data() + begin * rows.width,
                    scales->data() + begin * blocks);
    };
  });
  Add(cases, "act_quant_in_place", name, rows, {4 * width, 3 * width}, [rows](const Kernels& set) {
    const auto x = Share(RandomBf16(rows.count * rows.width, 1));
    return [=, &set](int64_t begin, int64_t end) {
      set.act_quant_in_place(x->data() + begin * rows.width, end - begin, rows.width, 128,
                             kernels::ActScale::kPowerOfTwo);
    };
  });
}

template <class Layout>
struct StoredRows {
  const char* pack_name;
  const char* unpack_name;
  void (*Kernels::*pack)(const Bf16*, int64_t, Layout, std::byte*);
  void (*Kernels::*unpack)(const std::byte*, int64_t, Layout, Bf16*);
};

template <class Layout>
void AddStored(std::vector<PerfCase>* cases, const StoredRows<Layout>& entries,
               const std::string& name, int64_t count, Layout layout) {
  const Rows rows{count, layout.width};
  const RowCost cost{static_cast<double>(2 * layout.width + layout.row_bytes()),
                     2.0 * layout.width};
  for (const bool unpack : {false, true}) {
    Add(cases, unpack ? entries.unpack_name : entries.pack_name, name, rows, cost,
        [=](const Kernels& set) {
          const auto x = Share(RandomBf16(count * layout.width, 2));
          const auto packed =
              Share(std::vector<std::byte>(static_cast<size_t>(count * layout.row_bytes())));
          (set.*entries.pack)(x->data(), count, layout, packed->data());
          return [=, &set](int64_t begin, int64_t end) {
            Bf16* const values = x->data() + begin * layout.width;
            std::byte* const bytes = packed->data() + begin * layout.row_bytes();
            if (unpack) {
              (set.*entries.unpack)(bytes, end - begin, layout, values);
            } else {
              (set.*entries.pack)(values, end - begin, layout, bytes);
            }
          };
        });
  }
}

void AddPrepare(std::vector<PerfCase>* cases, const std::string& name, const Rows& rows,
                kernels::Activation activation) {
  const auto width = static_cast<double>(rows.width);
  Add(cases, "prepare", name, rows, {4 * width, 2 * width}, [=](const Kernels& set) {
    const auto x = Share(RandomBf16(rows.count * rows.width, 3));
    const int64_t row_bytes = set.prepared_row_bytes(activation, rows.width, 128);
    const auto prepared =
        Share(std::vector<std::byte>(static_cast<size_t>(rows.count * row_bytes)));
    return [=, &set](int64_t begin, int64_t end) {
      set.prepare({.x = x->data() + begin * rows.width,
                   .x_stride = rows.width,
                   .num_rows = end - begin,
                   .cols = rows.width,
                   .activation = activation,
                   .prepared = prepared->data() + begin * row_bytes});
    };
  });
}

void AddNorms(std::vector<PerfCase>* cases, const std::string& name, const Rows& rows,
              bool weighted) {
  const auto width = static_cast<double>(rows.width);
  Add(cases, "rms_norm", name, rows, {4 * width, 4 * width}, [=](const Kernels& set) {
    const auto x = Share(RandomBf16(rows.count * rows.width, 4));
    const auto w = Share(RandomBf16(rows.width, 5));
    const auto y = Share(std::vector<Bf16>(x->size()));
    return [=, &set](int64_t begin, int64_t end) {
      set.rms_norm(x->data() + begin * rows.width, weighted ? w->data() : nullptr, end - begin,
                   rows.width, kEps, y->data() + begin * rows.width);
    };
  });
}

void AddRmsFactor(std::vector<PerfCase>* cases, const std::string& name, const Rows& rows) {
  const auto width = static_cast<double>(rows.width);
  Add(cases, "rms_factor", name, rows, {2 * width, 2 * width}, [=](const Kernels& set) {
    const auto x = Share(RandomBf16(rows.count * rows.width, 4));
    const auto r = Share(std::vector<float>(static_cast<size_t>(rows.count)));
    return [=, &set](int64_t begin, int64_t end) {
      set.rms_factor(x->data() + begin * rows.width, end - begin, rows.width, kEps,
                     r->data() + begin);
    };
  });
}

void AddRope(std::vector<PerfCase>* cases, const ModelShapes& model, int64_t count) {
  const Rows rows{count, model.q_dim()};
  const int64_t rotary = int64_t{model.num_heads} * model.rope_width;
  const RowCost cost{4.0 * static_cast<double>(rotary), 3.0 * static_cast<double>(rotary)};
  Add(cases, "rope", fmt::format("{} q", model.name), rows, cost, [=](const Kernels& set) {
    const auto x = Share(RandomBf16(count * rows.width, 6));
    const int64_t half = model.rope_width / 2;
    std::vector<float> cos, sin;
    for (const float angle : RandomFloats(count * half, 7)) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    return [=, &set, cos = Share(cos), sin = Share(sin)](int64_t begin, int64_t end) {
      set.rope({.x = x->data() + begin * rows.width + (model.head_dim - model.rope_width),
                .num_rows = end - begin,
                .row_stride = rows.width,
                .num_heads = model.num_heads,
                .head_stride = model.head_dim,
                .width = model.rope_width,
                .cos = cos->data() + begin * half,
                .sin = sin->data() + begin * half});
    };
  });
}

void AddHadamard(std::vector<PerfCase>* cases, const std::string& name, const Rows& rows) {
  const auto width = static_cast<double>(rows.width);
  Add(cases, "hadamard", name, rows, {4 * width, (std::log2(width) + 1) * width},
      [=](const Kernels& set) {
        const auto x = Share(RandomBf16(rows.count * rows.width, 8));
        return [=, &set](int64_t begin, int64_t end) {
          set.hadamard(x->data() + begin * rows.width, end - begin,
                       static_cast<int32_t>(rows.width));
        };
      });
}

void AddHcWeights(std::vector<PerfCase>* cases, const ModelShapes& model, int64_t count) {
  const int64_t hc = model.hc;
  const int64_t width = (2 + hc) * hc;
  const auto squares = static_cast<double>(hc * hc);
  // Twenty rounds of sums and divisions over rows and over columns.
  Add(cases, "hc_split", std::string(model.name), {count, width},
      {8.0 * static_cast<double>(width), 80 * squares}, [=](const Kernels& set) {
        const auto mixes = Share(RandomFloats(count * width, 9));
        const auto base = Share(RandomFloats(width, 10));
        const auto out = Share(std::vector<float>(static_cast<size_t>(count * width)));
        return [=, &set](int64_t begin, int64_t end) {
          static constexpr float kScale[3] = {0.5f, 1.0f, 2.0f};
          float* const pre = out->data() + begin * hc;
          set.hc_split({.mixes = mixes->data() + begin * width,
                        .num_rows = end - begin,
                        .hc = model.hc,
                        .scale = kScale,
                        .base = base->data(),
                        .pre = pre,
                        .post = pre + count * hc,
                        .comb = out->data() + (2 * count + begin * hc) * hc});
        };
      });
  Add(cases, "hc_head_pre", std::string(model.name), {count, hc},
      {8.0 * static_cast<double>(hc), 5.0 * static_cast<double>(hc)}, [=](const Kernels& set) {
        const auto mixes = Share(RandomFloats(count * hc, 9));
        const auto base = Share(RandomFloats(hc, 10));
        const auto pre = Share(std::vector<float>(mixes->size()));
        return [=, &set](int64_t begin, int64_t end) {
          set.hc_head_pre(mixes->data() + begin * hc, end - begin, model.hc, 0.5f, base->data(),
                          kEps, pre->data() + begin * hc);
        };
      });
}

void AddHcSums(std::vector<PerfCase>* cases, const ModelShapes& model, int64_t count) {
  const int64_t hc = model.hc;
  const int64_t dim = model.dim;
  const auto copies = static_cast<double>(hc);
  const auto width = static_cast<double>(dim);
  Add(cases, "hc_combine", std::string(model.name), {count, dim},
      {2 * (copies + 1) * width, 2 * copies * width}, [=](const Kernels& set) {
        const auto h = Share(RandomBf16(count * hc * dim, 11));
        const auto pre = Share(RandomFloats(count * hc, 12));
        const auto x = Share(std::vector<Bf16>(static_cast<size_t>(count * dim)));
        return [=, &set](int64_t begin, int64_t end) {
          set.hc_combine(h->data() + begin * hc * dim, pre->data() + begin * hc, end - begin,
                         model.hc, dim, x->data() + begin * dim);
        };
      });
  Add(cases, "hc_post", std::string(model.name), {count, dim},
      {2 * (2 * copies + 1) * width, 2 * copies * (copies + 1) * width}, [=](const Kernels& set) {
        const auto h = Share(RandomBf16(count * hc * dim, 11));
        const auto x = Share(RandomBf16(count * dim, 12));
        // Averages of the copies, so that they stay as large as they are.
        const auto post = Share(std::vector<float>(static_cast<size_t>(count * hc), 0.01f));
        const auto comb = Share(std::vector<float>(static_cast<size_t>(count * hc * hc),
                                                   1.0f / static_cast<float>(hc)));
        return [=, &set](int64_t begin, int64_t end) {
          set.hc_post(x->data() + begin * dim, post->data() + begin * hc,
                      comb->data() + begin * hc * hc, end - begin, model.hc, dim,
                      h->data() + begin * hc * dim);
        };
      });
}

void AddExperts(std::vector<PerfCase>* cases, const ModelShapes& model, int64_t count) {
  const int64_t n = model.num_experts;
  Add(cases, "route", std::string(model.name), {count, n},
      {8.0 * static_cast<double>(n), (5.0 + model.num_chosen) * static_cast<double>(n)},
      [=](const Kernels& set) {
        const auto z = Share(RandomFloats(count * n, 13));
        const auto bias = Share(RandomFloats(n, 14, 0.1f));
        const auto scores = Share(std::vector<float>(z->size()));
        const auto slots = static_cast<size_t>(count * model.num_chosen);
        const auto chosen = Share(std::vector<int32_t>(slots));
        const auto weights = Share(std::vector<float>(slots));
        return [=, &set](int64_t begin, int64_t end) {
          for (int64_t t = begin; t < end; ++t) {
            set.route({.z = z->data() + t * n,
                       .num_experts = model.num_experts,
                       .num_chosen = model.num_chosen,
                       .bias = bias->data(),
                       .route_scale = model.route_scale,
                       .scores = scores->data() + t * n,
                       .chosen = chosen->data() + t * model.num_chosen,
                       .weights = weights->data() + t * model.num_chosen});
          }
        };
      });
  const Rows rows{count * model.num_chosen, model.expert_width};
  const auto width = static_cast<double>(rows.width);
  Add(cases, "swiglu", std::string(model.name), rows, {6 * width, 7 * width},
      [=](const Kernels& set) {
        const auto gate = Share(RandomBf16(rows.count * rows.width, 15, 3.0f));
        const auto up = Share(RandomBf16(rows.count * rows.width, 16, 3.0f));
        const auto weights = Share(RandomFloats(rows.count, 17));
        const auto y = Share(std::vector<Bf16>(gate->size()));
        return [=, &set](int64_t begin, int64_t end) {
          const int64_t at = begin * rows.width;
          set.swiglu({.gate = gate->data() + at,
                      .up = up->data() + at,
                      .num_rows = end - begin,
                      .width = rows.width,
                      .limit = 10.0f,
                      .weights = weights->data() + begin,
                      .output = y->data() + at});
        };
      });
}

constexpr StoredRows<KvRowLayout> kKvRows = {"pack_kv_rows", "unpack_kv_rows",
                                             &Kernels::pack_kv_rows, &Kernels::unpack_kv_rows};
constexpr StoredRows<IndexRowLayout> kIndexRows = {
    "pack_index_rows", "unpack_index_rows", &Kernels::pack_index_rows, &Kernels::unpack_index_rows};

}  // namespace

std::vector<PerfCase> RowPerfCases() {
  std::vector<PerfCase> cases;
  for (const ModelShapes& model : kPublished) {
    const std::string name(model.name);
    for (const int64_t count : {1, 512}) {
      AddQuant(&cases, name, {count, model.dim});
      AddStored(&cases, kIndexRows, name + " index q", count * model.index_heads,
                IndexRowLayout{model.index_width});
      AddStored(&cases, kKvRows, name, count, KvRowLayout{model.head_dim, model.rope_width, true});
      AddPrepare(&cases, name, {count, model.dim}, kernels::Activation::kQuantized);
      AddPrepare(&cases, name + " copies plain", {count, model.hc_dim()},
                 kernels::Activation::kPlain);
      AddNorms(&cases, name, {count, model.dim}, true);
      AddNorms(&cases, name + " q heads", {count * model.num_heads, model.head_dim}, false);
      AddRmsFactor(&cases, name + " copies", {count, model.hc_dim()});
      AddRope(&cases, model, count);
      AddHadamard(&cases, name + " index q", {count * model.index_heads, model.index_width});
      AddHcWeights(&cases, model, count);
      AddHcSums(&cases, model, count);
      AddExperts(&cases, model, count);
    }
  }
  return cases;
}

}  // namespace dsv4::tools
