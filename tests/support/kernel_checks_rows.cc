// Norms, rotary embedding, Hadamard and hyper-connections: bit for bit as in ref.
#include <fmt/format.h>

#include <cmath>

#include "tests/support/against_ref.h"
#include "tests/support/kernel_checks.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"

namespace dsv4::test {
namespace {

using kernels::Kernels;

constexpr float kEps = 1e-6f;

std::vector<int64_t> UpTo(int64_t last) {
  std::vector<int64_t> widths;
  for (int64_t width = 1; width <= last; ++width) widths.push_back(width);
  return widths;
}

// run(set, width) for each, as one case.
template <class Run>
void AddWidths(std::vector<KernelCheck>* checks, const char* op, const std::string& name,
               const std::vector<int64_t>& widths, Run run) {
  checks->push_back({op, name, [=](const Kernels& set) {
                       Verdicts verdicts;
                       for (const int64_t width : widths) {
                         verdicts.Add(fmt::format("width {}", width), run(set, width));
                       }
                       return verdicts.Total();
                     }});
}

template <class Run>
void AddRaggedAndPublished(std::vector<KernelCheck>* checks, const char* op,
                           std::vector<int64_t> (*widths)(const ModelShapes&), Run run) {
  AddWidths(checks, op, "widths 1..70", UpTo(70), run);
  for (const ModelShapes& model : kPublished) {
    AddWidths(checks, op, fmt::format("{} widths", model.name), widths(model), run);
  }
}

// As drawn, in place, without weights; then with specials, where NaN is NaN whatever its bits.
Verdict RmsNorm(const Kernels& set, int64_t cols) {
  const auto x = RandomBf16(2 * cols, 7, 3.0f);
  const auto wild = WildBf16(3 * cols, 6);
  const auto w = RandomBf16(cols, 8);
  Verdicts verdicts;
  for (const Bf16* weight : {w.data(), static_cast<const Bf16*>(nullptr)}) {
    const std::string kind = weight == nullptr ? "without weights" : "with weights";
    verdicts.Add(kind, SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
                   kernels.rms_norm(x.data(), weight, 2, cols, kEps,
                                    buffers->Output<Bf16>(2 * cols));
                 }));
    verdicts.Add(kind + ", in place",
                 SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
                   Bf16* const y = buffers->Output(x);
                   kernels.rms_norm(y, weight, 2, cols, kEps, y);
                 }));
    verdicts.Add(kind + ", with specials",
                 SameNumbersAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
                   kernels.rms_norm(wild.data(), weight, 3, cols, kEps,
                                    buffers->Output<Bf16>(3 * cols));
                 }));
  }
  return verdicts.Total();
}

Verdict RmsFactor(const Kernels& set, int64_t cols) {
  const auto x = RandomBf16(3 * cols, 7, 3.0f);
  const auto wild = WildBf16(3 * cols, 6);
  Verdicts verdicts;
  for (const auto* input : {&x, &wild}) {
    verdicts.Add(input == &x ? "" : "with specials",
                 SameNumbersAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
                   kernels.rms_factor(input->data(), 3, cols, kEps, buffers->Output<float>(3));
                 }));
  }
  return verdicts.Total();
}

// Heads `stride` channels apart, whose first channels must stay.
Verdict Rope(const Kernels& set, int32_t width, int32_t num_heads, int64_t stride) {
  constexpr int64_t kRows = 2;
  const auto cos = RandomFloats(kRows * width / 2, 10);
  const auto sin = RandomFloats(kRows * width / 2, 11);
  Verdicts verdicts;
  for (const bool wild : {false, true}) {
    const int64_t n = kRows * num_heads * stride;
    const auto x = wild ? WildBf16(n, 9) : RandomBf16(n, 9);
    for (const bool inverse : {false, true}) {
      const KernelCall call = [&](const Kernels& kernels, CallBuffers* buffers) {
        kernels.rope({.x = buffers->Output(x) + (stride - width),
                      .num_rows = kRows,
                      .row_stride = num_heads * stride,
                      .num_heads = num_heads,
                      .head_stride = stride,
                      .width = width,
                      .cos = cos.data(),
                      .sin = sin.data(),
                      .inverse = inverse});
      };
      verdicts.Add(fmt::format("{} heads, {}{}", num_heads, inverse ? "inverse" : "forward",
                               wild ? ", with specials" : ""),
                   wild ? SameNumbersAsRef(set, call) : SameBitsAsRef(set, call));
    }
  }
  return verdicts.Total();
}

Verdict Hadamard(const Kernels& set, int64_t n) {
  Verdicts verdicts;
  for (const bool wild : {false, true}) {
    const auto x = wild ? WildBf16(3 * n, 12) : RandomBf16(3 * n, 12);
    const KernelCall call = [&](const Kernels& kernels, CallBuffers* buffers) {
      kernels.hadamard(buffers->Output(x), 3, static_cast<int32_t>(n));
    };
    verdicts.Add(wild ? "with specials" : "",
                 wild ? SameNumbersAsRef(set, call) : SameBitsAsRef(set, call));
  }
  return verdicts.Total();
}

Verdict HcSplit(const Kernels& set, int32_t hc, float spread) {
  constexpr int64_t kRows = 6;
  const int64_t width = (2 + hc) * hc;
  const auto mixes = RandomFloats(kRows * width, 17, spread);
  const auto base = RandomFloats(width, 18);
  const float scale[3] = {0.5f, 1.0f, 2.0f};
  return SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    kernels.hc_split({.mixes = mixes.data(),
                      .num_rows = kRows,
                      .hc = hc,
                      .scale = scale,
                      .base = base.data(),
                      .pre = buffers->Output<float>(kRows * hc),
                      .post = buffers->Output<float>(kRows * hc),
                      .comb = buffers->Output<float>(kRows * hc * hc)});
  });
}

Verdict HcHeadPre(const Kernels& set, int32_t hc, float spread) {
  constexpr int64_t kRows = 7;
  auto mixes = RandomFloats(kRows * hc, 19, spread);
  mixes[1] = kNan;
  mixes.back() = -kInf;
  const auto base = RandomFloats(hc, 20);
  return SameNumbersAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    kernels.hc_head_pre(mixes.data(), kRows, hc, 0.75f, base.data(), kEps,
                        buffers->Output<float>(kRows * hc));
  });
}

// Sums of hc copies of two rows of `dim`, as drawn and with specials.
Verdict HcSums(const Kernels& set, int32_t hc, int64_t dim, bool post) {
  const auto pre = RandomFloats(2 * hc, 13);
  const auto comb = RandomFloats(2 * hc * hc, 14);
  Verdicts verdicts;
  for (const bool wild : {false, true}) {
    const auto h = wild ? WildBf16(2 * hc * dim, 15) : RandomBf16(2 * hc * dim, 15);
    const auto x = wild ? WildBf16(2 * dim, 16) : RandomBf16(2 * dim, 16);
    const KernelCall call = [&](const Kernels& kernels, CallBuffers* buffers) {
      if (post) {
        kernels.hc_post(x.data(), pre.data(), comb.data(), 2, hc, dim, buffers->Output(h));
      } else {
        kernels.hc_combine(h.data(), pre.data(), 2, hc, dim, buffers->Output<Bf16>(2 * dim));
      }
    };
    verdicts.Add(fmt::format("{} copies{}", hc, wild ? ", with specials" : ""),
                 wild ? SameNumbersAsRef(set, call) : SameBitsAsRef(set, call));
  }
  return verdicts.Total();
}

void AddHyperConnectionChecks(std::vector<KernelCheck>* checks) {
  for (const int32_t hc : {1, 2, 3, 4, 5, 8}) {
    for (const float spread : {3.0f, 60.0f}) {
      const std::string name = fmt::format("{} copies, values of about {}", hc, spread);
      checks->push_back(
          {"hc_split", name, [=](const Kernels& set) { return HcSplit(set, hc, spread); }});
      checks->push_back(
          {"hc_head_pre", name, [=](const Kernels& set) { return HcHeadPre(set, hc, spread); }});
    }
  }
  for (const bool post : {false, true}) {
    AddRaggedAndPublished(
        checks, post ? "hc_post" : "hc_combine",
        [](const ModelShapes& model) { return std::vector<int64_t>{model.dim}; },
        [=](const Kernels& set, int64_t dim) {
          Verdicts verdicts;
          for (const int32_t hc : {1, 2, 3, 4, 8}) {
            verdicts.Add("", HcSums(set, hc, dim, post));
          }
          return verdicts.Total();
        });
  }
}

}  // namespace

std::vector<KernelCheck> RowChecks() {
  std::vector<KernelCheck> checks;
  const auto norm_widths = [](const ModelShapes& model) {
    return std::vector<int64_t>{model.dim, model.q_rank, model.head_dim, model.index_width,
                                model.hc_dim()};
  };
  AddRaggedAndPublished(&checks, "rms_norm", norm_widths, RmsNorm);
  AddRaggedAndPublished(&checks, "rms_factor", norm_widths, RmsFactor);
  checks.push_back({"rope", "widths 2..70", [](const Kernels& set) {
                      Verdicts verdicts;
                      for (int32_t width = 2; width <= 70; width += 2) {
                        verdicts.Add(fmt::format("width {}", width),
                                     Rope(set, width, 3, width + 5));
                      }
                      return verdicts.Total();
                    }});
  for (const ModelShapes& model : kPublished) {
    checks.push_back(
        {"rope", fmt::format("{} heads", model.name), [=](const Kernels& set) {
           Verdicts verdicts;
           verdicts.Add("q", Rope(set, model.rope_width, model.num_heads, model.head_dim));
           verdicts.Add("kv", Rope(set, model.rope_width, 1, model.head_dim));
           verdicts.Add("index q",
                        Rope(set, model.rope_width, model.index_heads, model.index_width));
           return verdicts.Total();
         }});
  }
  std::vector<int64_t> powers;
  for (int64_t n = 1; n <= 4096; n *= 2) powers.push_back(n);
  AddWidths(&checks, "hadamard", "1, 2 to 4096", powers, Hadamard);
  AddWidths(&checks, "hadamard", "128", {128}, Hadamard);
  AddHyperConnectionChecks(&checks);
  return checks;
}

}  // namespace dsv4::test
