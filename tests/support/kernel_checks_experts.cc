// The router, and the experts' activation.
#include <fmt/format.h>

#include <numeric>

#include "tests/support/against_ref.h"
#include "tests/support/kernel_checks.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"

namespace dsv4::test {
namespace {

using kernels::Kernels;
using kernels::ScoreFunction;

enum class Logits : uint8_t { kRandom, kTies, kFarApart, kSpecials };

struct RouteCase {
  int32_t num_experts = 0;
  int32_t num_chosen = 0;
  ScoreFunction function = ScoreFunction::kSqrtSoftplus;
  bool fixed = false;
  float route_scale = 1.5f;
};

Verdict Route(const Kernels& set, const RouteCase& s, Logits kind) {
  std::vector<float> z = RandomFloats(s.num_experts, 31, kind == Logits::kFarApart ? 40.0f : 1.0f);
  for (size_t i = 0; i < z.size(); ++i) {
    if (kind == Logits::kTies) z[i] = static_cast<float>(i % 3);
    if (kind == Logits::kSpecials && i % 5 == 0) z[i] = i % 2 ? kNan : -kInf;
  }
  std::vector<float> bias = RandomFloats(s.num_experts, 32, 0.1f);
  if (kind == Logits::kTies) std::ranges::fill(bias, 0.0f);
  std::vector<int64_t> fixed(static_cast<size_t>(s.num_chosen));
  std::iota(fixed.begin(), fixed.end(), s.num_experts - s.num_chosen);
  Verdicts verdicts;
  for (const float* use :
       {static_cast<const float*>(bias.data()), static_cast<const float*>(nullptr)}) {
    verdicts.Add(use == nullptr ? "without bias" : "with bias",
                 SameNumbersAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
                   // Indices below 2^24 are subnormal floats: they compare by their bits.
                   kernels.route({.z = z.data(),
                                  .num_experts = s.num_experts,
                                  .num_chosen = s.num_chosen,
                                  .function = s.function,
                                  .bias = use,
                                  .fixed = s.fixed ? fixed.data() : nullptr,
                                  .route_scale = s.route_scale,
                                  .scores = buffers->Output<float>(s.num_experts),
                                  .chosen = buffers->Output<int32_t>(s.num_chosen),
                                  .weights = buffers->Output<float>(s.num_chosen)});
                 }));
  }
  return verdicts.Total();
}

Verdict RouteAll(const Kernels& set, const RouteCase& shape) {
  Verdicts verdicts;
  for (const auto function :
       {ScoreFunction::kSqrtSoftplus, ScoreFunction::kSigmoid, ScoreFunction::kSoftmax}) {
    for (const bool fixed : {false, true}) {
      for (const auto& [kind, text] : {std::pair{Logits::kRandom, "random"},
                                       {Logits::kTies, "ties"},
                                       {Logits::kFarApart, "far apart"},
                                       {Logits::kSpecials, "NaN and -inf"}}) {
        RouteCase s = shape;
        s.function = function;
        s.fixed = fixed;
        verdicts.Add(fmt::format("function {}, {}, {}", static_cast<int>(function),
                                 fixed ? "hash layer" : "chosen", text),
                     Route(set, s, kind));
      }
    }
  }
  return verdicts.Total();
}

struct SwigluInput {
  int64_t num_rows = 0;
  int64_t width = 0;
  std::vector<Bf16> gate;
  std::vector<Bf16> up;
};

// With and without a clamp and weights, apart and in place.
Verdict Swiglu(const Kernels& set, const SwigluInput& input) {
  std::vector<float> weights = RandomFloats(input.num_rows, 33);
  Verdicts verdicts;
  for (const float limit : {0.0f, 10.0f}) {
    for (const bool weighted : {false, true}) {
      for (const bool in_place : {false, true}) {
        const KernelCall call = [&](const Kernels& kernels, CallBuffers* buffers) {
          Bf16* const output = in_place ? buffers->Output(input.gate)
                                        : buffers->Output<Bf16>(input.num_rows * input.width);
          kernels.swiglu({.gate = in_place ? output : input.gate.data(),
                          .up = input.up.data(),
                          .num_rows = input.num_rows,
                          .width = input.width,
                          .limit = limit,
                          .weights = weighted ? weights.data() : nullptr,
                          .output = output});
        };
        verdicts.Add(fmt::format("limit {}{}{}", limit, weighted ? ", weighted" : "",
                                 in_place ? ", in place" : ""),
                     NearRef(set, call, 1));
      }
    }
  }
  return verdicts.Total();
}

void AddSwigluChecks(std::vector<KernelCheck>* checks) {
  checks->push_back(
      {"swiglu", "2 x 1..70, with specials", [](const Kernels& set) {
         Verdicts verdicts;
         for (int64_t width = 1; width <= 70; ++width) {
           verdicts.Add(fmt::format("width {}", width),
                        Swiglu(set, {2, width, WildBf16(2 * width, 20), WildBf16(2 * width, 21)}));
         }
         return verdicts.Total();
       }});
  checks->push_back({"swiglu", "every bf16 as gate", [](const Kernels& set) {
                       return Swiglu(set, {1, 65536, AllBf16(), RandomBf16(65536, 22)});
                     }});
  for (const ModelShapes& model : kPublished) {
    const int64_t width = model.expert_width;
    checks->push_back(
        {"swiglu", fmt::format("{}: 3 x {}", model.name, width), [=](const Kernels& set) {
           return Swiglu(
               set, {3, width, RandomBf16(3 * width, 23, 5.0f), RandomBf16(3 * width, 24, 5.0f)});
         }});
  }
}

}  // namespace

std::vector<KernelCheck> ExpertChecks() {
  std::vector<KernelCheck> checks;
  for (const auto& [experts, chosen] :
       {std::pair<int32_t, int32_t>{1, 1}, {3, 2}, {16, 4}, {17, 17}, {100, 8}}) {
    checks.push_back({"route", fmt::format("{} of {}", chosen, experts),
                      [=, experts = experts, chosen = chosen](const Kernels& set) {
                        return RouteAll(set, {experts, chosen});
                      }});
  }
  for (const ModelShapes& model : kPublished) {
    const RouteCase shape{.num_experts = model.num_experts,
                          .num_chosen = model.num_chosen,
                          .route_scale = model.route_scale};
    checks.push_back({"route",
                      fmt::format("{}: {} of {}", model.name, model.num_chosen, model.num_experts),
                      [=](const Kernels& set) { return RouteAll(set, shape); }});
  }
  AddSwigluChecks(&checks);
  return checks;
}

}  // namespace dsv4::test
