// Rules for attention, hyper-connections, norms, the rotary embedding, router, pooling and
// sampling.
#include <algorithm>
#include <cmath>

#include "engine/sampling_math.h"
#include "model/rope_table.h"
#include "tools/ops_golden_file.h"

namespace dsv4::tools {
namespace {

constexpr float kEps = 1e-6f;
constexpr int32_t kHc = 4;

// fn · v for rows of H, with fn fp32.
std::vector<float> PlainProductF32(const kernels::Kernels& kernels, const std::vector<Bf16>& x,
                                   int64_t num_rows, const Floats& fn) {
  using kernels::Activation;
  const int64_t cols = fn.shape[1];
  std::vector<std::byte> prepared(
      static_cast<size_t>(num_rows * kernels.prepared_row_bytes(Activation::kPlain, cols, 128)));
  kernels.prepare({.x = x.data(),
                   .x_stride = cols,
                   .num_rows = num_rows,
                   .cols = cols,
                   .prepared = prepared.data()});
  const WeightView weight{.format = WeightFormat::kF32,
                          .data = reinterpret_cast<const std::byte*>(fn.values.data()),
                          .rows = fn.shape[0],
                          .cols = cols};
  std::vector<float> y(static_cast<size_t>(num_rows * weight.rows));
  kernels.product({.prepared = prepared.data(),
                   .num_rows = num_rows,
                   .weight = &weight,
                   .begin = 0,
                   .end = weight.rows,
                   .output_type = kernels::OutputType::kF32,
                   .output = y.data(),
                   .output_stride = weight.rows});
  return y;
}

struct HcSplit {
  std::vector<float> pre, post, comb;
};

HcSplit Split(const kernels::Kernels& kernels, const std::vector<float>& mixes, int64_t num_rows,
              int32_t iters, const Floats& scale, const Floats& base) {
  const auto n = static_cast<size_t>(num_rows);
  HcSplit s{std::vector<float>(n * kHc), std::vector<float>(n * kHc),
            std::vector<float>(n * kHc * kHc)};
  kernels.hc_split({.mixes = mixes.data(),
                    .num_rows = num_rows,
                    .hc = kHc,
                    .sinkhorn_iters = iters,
                    .eps = kEps,
                    .scale = scale.values.data(),
                    .base = base.values.data(),
                    .pre = s.pre.data(),
                    .post = s.post.data(),
                    .comb = s.comb.data()});
  return s;
}

Status CheckHcSplit(GoldenFile& file, const std::string& name, int32_t iters) {
  DSV4_ASSIGN(const Floats mixes, file.Load(name + ".mixes"));
  DSV4_ASSIGN(const Floats scale, file.Load(name + ".scale"));
  DSV4_ASSIGN(const Floats base, file.Load(name + ".base"));
  DSV4_ASSIGN(const Floats pre, file.Load(name + ".pre"));
  DSV4_ASSIGN(const Floats post, file.Load(name + ".post"));
  DSV4_ASSIGN(const Floats comb, file.Load(name + ".comb"));
  const HcSplit s = Split(file.kernels, mixes.values, mixes.shape[0], iters, scale, base);
  file.Note(name + " pre", test::WithinRelative(Shaped(s.pre, pre), pre, 1e-5));
  file.Note(name + " post", test::WithinRelative(Shaped(s.post, post), post, 1e-5));
  file.Note(name + " comb", test::WithinRelative(Shaped(s.comb, comb), comb, 1e-5));
  return {};
}

Status CheckHcBlock(GoldenFile& file) {
  DSV4_ASSIGN(const Floats h, file.Load("block.H"));
  DSV4_ASSIGN(const Floats fn, file.Load("block.fn"));
  DSV4_ASSIGN(const Floats scale, file.Load("block.scale"));
  DSV4_ASSIGN(const Floats base, file.Load("block.base"));
  DSV4_ASSIGN(const Floats want_mixes, file.Load("block.mixes"));
  DSV4_ASSIGN(const Floats want_x, file.Load("block.x"));
  DSV4_ASSIGN(const Floats sublayer, file.Load("block.sublayer_out"));
  DSV4_ASSIGN(const Floats want_h, file.Load("block.H_next"));
  const int64_t num_rows = h.shape[0];
  const int64_t dim = h.shape[2];
  std::vector<Bf16> state = ToBf16s(h);
  std::vector<float> mixes = PlainProductF32(file.kernels, state, num_rows, fn);
  std::vector<float> r(static_cast<size_t>(num_rows));
  file.kernels.rms_factor(state.data(), num_rows, kHc * dim, kEps, r.data());
  const size_t width = mixes.size() / r.size();
  for (size_t i = 0; i < mixes.size(); ++i) mixes[i] *= r[i / width];
  const HcSplit s = Split(file.kernels, mixes, num_rows, 20, scale, base);
  std::vector<Bf16> x(static_cast<size_t>(num_rows * dim));
  file.kernels.hc_combine(state.data(), s.pre.data(), num_rows, kHc, dim, x.data());
  file.kernels.hc_post(ToBf16s(sublayer).data(), s.post.data(), s.comb.data(), num_rows, kHc, dim,
                       state.data());
  file.Note("block mixes", test::WithinRelative(Shaped(mixes, want_mixes), want_mixes, 1e-5));
  file.Note("block x", test::WithinBf16Steps(Shaped(x, want_x), want_x, 1.0));
  file.Note("block H_next", test::WithinBf16Steps(Shaped(state, want_h), want_h, 1.0));
  return {};
}

// One query row of sparse_attn.
void Attend(const kernels::Kernels& kernels, const std::vector<Bf16>& kv,
            const std::vector<int32_t>& index, kernels::SparseAttentionArgs args) {
  std::vector<const std::byte*> rows;
  for (const int32_t i : index) {
    if (i < 0) continue;
    rows.push_back(reinterpret_cast<const std::byte*>(kv.data() + i * args.layout.width));
  }
  std::vector<std::byte> scratch(
      static_cast<size_t>(kernels.sparse_attention_scratch_bytes(args.num_heads, args.layout)));
  args.rows = rows.data();
  args.num_rows = static_cast<int64_t>(rows.size());
  args.scratch = scratch.data();
  kernels.sparse_attention(args);
}

Status CheckRopeTable(GoldenFile& file, const std::string& name, double base,
                      const std::optional<Yarn>& yarn) {
  DSV4_ASSIGN(const Floats want_freq, file.Load(name + ".freq"));
  DSV4_ASSIGN(const Floats want_cos, file.Load(name + ".cos"));
  DSV4_ASSIGN(const Floats want_sin, file.Load(name + ".sin"));
  DSV4_ASSIGN(const std::vector<int64_t> positions, file.Integers("rope_positions"));
  const size_t n = want_freq.values.size();
  const auto freq = RopeFrequencies(static_cast<int32_t>(2 * n), base, yarn);
  std::vector<float> cos(n * positions.size());
  std::vector<float> sin(n * positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    RopeAngles(want_freq.values, positions[i], cos.data() + i * n, sin.data() + i * n);
  }
  file.Note(name + " freq", test::WithinUlps(Shaped(freq, want_freq), want_freq, 2.0));
  file.Note(name + " cos", test::WithinAbsolute(Shaped(cos, want_cos), want_cos, 3e-7));
  file.Note(name + " sin", test::WithinAbsolute(Shaped(sin, want_sin), want_sin, 3e-7));
  return {};
}

Status CheckRopeRotation(GoldenFile& file, const std::string& name) {
  DSV4_ASSIGN(const Floats x, file.Load(name + ".x"));
  DSV4_ASSIGN(const Floats cos, file.Load(name + ".cos"));
  DSV4_ASSIGN(const Floats sin, file.Load(name + ".sin"));
  const int32_t width = static_cast<int32_t>(2 * cos.shape[1]);
  for (const bool inverse : {false, true}) {
    const std::string output = inverse ? ".y_inverse" : ".y";
    DSV4_ASSIGN(const Floats want, file.Load(name + output));
    std::vector<Bf16> values = ToBf16s(x);
    file.kernels.rope({.x = values.data() + (x.shape[1] - width),
                       .num_rows = x.shape[0],
                       .row_stride = x.shape[1],
                       .num_heads = 1,
                       .head_stride = width,
                       .width = width,
                       .cos = cos.values.data(),
                       .sin = sin.values.data(),
                       .inverse = inverse});
    file.Note(name + output, test::WithinBf16Steps(Shaped(values, want), want, 1.0));
  }
  return {};
}

Status CheckRoute(GoldenFile& file, const std::string& name, kernels::ScoreFunction function) {
  DSV4_ASSIGN(const Floats z, file.Load(name + ".z"));
  DSV4_ASSIGN(const Floats bias, file.Load(name + ".bias"));
  DSV4_ASSIGN(const Floats want_score, file.Load(name + ".score"));
  DSV4_ASSIGN(const Floats want_index, file.Load(name + ".index"));
  DSV4_ASSIGN(const Floats want_weight, file.Load(name + ".weight"));
  const auto num_experts = static_cast<int32_t>(z.shape[1]);
  const auto num_chosen = static_cast<int32_t>(want_index.shape[1]);
  Floats score = want_score, index = want_index, weight = want_weight;
  Floats fixed_weight = want_weight;
  for (int64_t row = 0; row < z.shape[0]; ++row) {
    std::vector<int32_t> chosen(static_cast<size_t>(num_chosen));
    kernels::RouteArgs args{.z = z.values.data() + row * num_experts,
                            .num_experts = num_experts,
                            .num_chosen = num_chosen,
                            .function = function,
                            .bias = bias.values.data(),
                            .route_scale = 2.5f,
                            .scores = score.values.data() + row * num_experts,
                            .chosen = chosen.data(),
                            .weights = weight.values.data() + row * num_chosen};
    file.kernels.route(args);
    std::ranges::copy(chosen, index.values.begin() + row * num_chosen);
    // The same experts given as a hash layer's.
    const std::vector<int64_t> fixed(chosen.begin(), chosen.end());
    args.bias = nullptr;
    args.fixed = fixed.data();
    args.weights = fixed_weight.values.data() + row * num_chosen;
    file.kernels.route(args);
  }
  file.Note(name + " score", test::WithinRelative(score, want_score, 1e-6));
  file.Note(name + " index", test::SameBits(index, want_index));
  file.Note(name + " weight", test::WithinRelative(weight, want_weight, 1e-6));
  file.Note(name + " weight of fixed", test::WithinRelative(fixed_weight, want_weight, 1e-6));
  return {};
}

Status CheckSwiglu(GoldenFile& file) {
  DSV4_ASSIGN(const Floats gate, file.Load("swiglu.gate"));
  DSV4_ASSIGN(const Floats up, file.Load("swiglu.up"));
  DSV4_ASSIGN(const Floats weight, file.Load("swiglu.weight"));
  DSV4_ASSIGN(const Floats want, file.Load("swiglu.h"));
  std::vector<Bf16> h(want.values.size());
  const std::vector<Bf16> gate_values = ToBf16s(gate);
  const std::vector<Bf16> up_values = ToBf16s(up);
  file.kernels.swiglu({.gate = gate_values.data(),
                       .up = up_values.data(),
                       .num_rows = gate.shape[0],
                       .width = gate.shape[1],
                       .limit = 10.0f,
                       .weights = weight.values.data(),
                       .output = h.data()});
  file.Note("swiglu h", test::WithinBf16Steps(Shaped(h, want), want, 1.0));
  return {};
}

Status CheckPool(GoldenFile& file, const std::string& name, int64_t ratio, bool overlap) {
  DSV4_ASSIGN(const Floats kv, file.Load(name + ".kv"));
  DSV4_ASSIGN(const Floats gate, file.Load(name + ".gate"));
  DSV4_ASSIGN(const Floats ape, file.Load(name + ".ape"));
  DSV4_ASSIGN(const Floats pooled, file.Load(name + ".pooled"));
  DSV4_ASSIGN(const Floats rounded, file.Load(name + ".pooled_bf16"));
  const int64_t width = pooled.shape[1];
  const int64_t row_width = kv.shape[1];
  std::vector<float> score = gate.values;
  for (size_t i = 0; i < score.size(); ++i) score[i] += ape.values[i % ape.values.size()];
  std::vector<Bf16> got(pooled.values.size());
  for (int64_t entry = 0; entry < pooled.shape[0]; ++entry) {
    std::vector<const float*> kv_rows;
    std::vector<const float*> score_rows;
    const int64_t first = overlap ? std::max<int64_t>(entry - 1, 0) : entry;
    for (int64_t t = first * ratio; t < (entry + 1) * ratio; ++t) {
      // With overlap the current block gives its second half of channels.
      const int64_t at = t * row_width + (overlap && t / ratio == entry ? width : 0);
      kv_rows.push_back(kv.values.data() + at);
      score_rows.push_back(score.data() + at);
    }
    file.kernels.pool({.kv = kv_rows.data(),
                       .score = score_rows.data(),
                       .num_rows = static_cast<int32_t>(kv_rows.size()),
                       .width = static_cast<int32_t>(width),
                       .output = got.data() + entry * width});
  }
  file.Note(name + " pooled_bf16", test::WithinBf16Steps(Shaped(got, rounded), rounded, 1.0));
  // Half a step is the rounding; the rest leaves room for 1e-6 before it.
  file.Note(name + " pooled", test::WithinBf16Steps(Shaped(got, pooled), pooled, 0.5 + 5e-4));
  return {};
}

}  // namespace

Status CheckHyperConnections(GoldenFile& file) {
  DSV4_TRY(CheckHcSplit(file, "iters1", 1));
  DSV4_TRY(CheckHcSplit(file, "iters20", 20));
  return CheckHcBlock(file);
}

Status CheckSparseAttention(GoldenFile& file) {
  for (const std::string& name : file.Cases()) {
    DSV4_ASSIGN(const Floats q, file.Load(name + ".q"));
    DSV4_ASSIGN(const Floats kv, file.Load(name + ".kv"));
    DSV4_ASSIGN(const Floats sink, file.Load(name + ".sink"));
    DSV4_ASSIGN(const Floats index, file.Load(name + ".index"));
    DSV4_ASSIGN(const Floats want, file.Load(name + ".o"));
    DSV4_ASSIGN(const double scale, file.Parameter("sparse_attn", name, "scale"));
    const int64_t num_queries = q.shape[1];
    const auto num_heads = static_cast<int32_t>(q.shape[2]);
    const KvRowLayout layout{static_cast<int32_t>(q.shape[3]), 64, false};
    const std::vector<Bf16> q_values = ToBf16s(q);
    const auto index_values = ToIntegers<int32_t>(index);
    std::vector<Bf16> got(want.values.size());
    for (int64_t i = 0; i < q.shape[0] * num_queries; ++i) {
      const int64_t batch = i / num_queries;
      const auto selected = index_values.begin() + i * index.shape[2];
      Attend(file.kernels, ToBf16s(Rows(kv, batch, batch + 1)),
             std::vector<int32_t>(selected, selected + index.shape[2]),
             {.q = q_values.data() + i * num_heads * layout.width,
              .num_heads = num_heads,
              .layout = layout,
              .sink = sink.values.data(),
              .scale = static_cast<float>(scale),
              .output = got.data() + i * num_heads * layout.width});
    }
    Floats got_rows = Shaped(got, want);
    Floats want_rows = want;
    got_rows.shape = want_rows.shape = {q.shape[0] * num_queries * num_heads, layout.width};
    file.Note(name + " o", RowsWithin(got_rows, want_rows, 4e-3));
  }
  return {};
}

Status CheckHadamard(GoldenFile& file) {
  for (const std::string& name : file.Cases()) {
    DSV4_ASSIGN(const Floats x, file.Load(name + ".x"));
    DSV4_ASSIGN(const Floats want, file.Load(name + ".y"));
    DSV4_ASSIGN(const Floats unrounded, file.Load(name + ".y_fp32"));
    std::vector<Bf16> values = ToBf16s(x);
    file.kernels.hadamard(values.data(), x.shape[0], static_cast<int32_t>(x.shape[1]));
    file.Note(name + " y", test::WithinBf16Steps(Shaped(values, want), want, 1.0));
    file.Note(name + " y_fp32", test::WithinBf16Steps(Shaped(values, unrounded), unrounded, 1.0));
  }
  return {};
}

Status CheckRmsNorm(GoldenFile& file) {
  for (const std::string& name : file.Cases()) {
    const bool head = name == "qhead";
    DSV4_ASSIGN(const Floats x, file.Load(name + ".x"));
    DSV4_ASSIGN(const Floats want, file.Load(name + (head ? ".y_fp32_rule" : ".y")));
    std::vector<Bf16> w;
    if (!head) {
      DSV4_ASSIGN(const Floats weight, file.Load(name + ".w"));
      w = ToBf16s(weight);
    }
    std::vector<Bf16> values = ToBf16s(x);
    file.kernels.rms_norm(values.data(), head ? nullptr : w.data(), x.shape[0], x.shape[1], kEps,
                          values.data());
    file.Note(name + " y", test::WithinBf16Steps(Shaped(values, want), want, 1.0));
  }
  return {};
}

Status CheckRope(GoldenFile& file) {
  const Yarn yarn{.original_seq_len = 65536, .factor = 16, .beta_fast = 32, .beta_slow = 1};
  DSV4_TRY(CheckRopeTable(file, "window", 10000.0, std::nullopt));
  DSV4_TRY(CheckRopeTable(file, "compressed", 160000.0, yarn));
  DSV4_TRY(CheckRopeRotation(file, "window"));
  return CheckRopeRotation(file, "compressed");
}

Status CheckRouter(GoldenFile& file) {
  DSV4_TRY(CheckRoute(file, "sqrtsoftplus", kernels::ScoreFunction::kSqrtSoftplus));
  DSV4_TRY(CheckRoute(file, "sigmoid", kernels::ScoreFunction::kSigmoid));
  DSV4_TRY(CheckRoute(file, "softmax", kernels::ScoreFunction::kSoftmax));
  return CheckSwiglu(file);
}

Status CheckCompressor(GoldenFile& file) {
  DSV4_TRY(CheckPool(file, "r128", 128, false));
  return CheckPool(file, "r4", 4, true);
}

Status CheckSampling(GoldenFile& file) {
  DSV4_ASSIGN(const Floats logits, file.Load("logits"));
  DSV4_ASSIGN(const Floats exponential, file.Load("exponential"));
  for (const std::string& name : file.Cases()) {
    DSV4_ASSIGN(const Floats want_probs, file.Load(name + ".probs"));
    DSV4_ASSIGN(const Floats want_choice, file.Load(name + ".choice"));
    const float temperature = std::stof(name.substr(1));
    Floats probs = want_probs;
    Floats choice = want_choice;
    const size_t vocab = static_cast<size_t>(logits.shape[1]);
    for (size_t row = 0; row < choice.values.size(); ++row) {
      const std::span<const float> words(logits.values.data() + row * vocab, vocab);
      const std::span<float> p(probs.values.data() + row * vocab, vocab);
      const std::span<const float> draws(exponential.values.data() + row * vocab, vocab);
      SoftmaxWithTemperature(words, temperature, p);
      choice.values[row] =
          static_cast<float>(temperature == 0.0f ? ArgMax(words) : ChooseByExponentials(p, draws));
    }
    file.Note(name + " probs", test::WithinRelative(probs, want_probs, 1e-6));
    file.Note(name + " choice", test::SameBits(choice, want_choice));
  }
  return {};
}

}  // namespace dsv4::tools
