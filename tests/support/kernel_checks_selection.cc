// Attention, the indexer's scores and choice, and pooling: bit for bit where nothing is rounded,
// else within the rounding of fp32.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.h"
#include "tests/support/against_ref.h"
#include "tests/support/kernel_checks.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"

namespace dsv4::test {
namespace {

using kernels::Kernels;

const Kernels& Ref() { return **kernels::Choose("ref"); }

struct AttentionCase {
  KvRowLayout layout;
  int32_t num_heads = 0;
  int64_t num_rows = 0;
  uint32_t seed = 22;
  float spread = 1.0f;  // of the queries
};

struct AttentionInput {
  AttentionCase shape;
  std::vector<Bf16> q;
  std::vector<std::byte> stored;  // [num_rows] in turn
  std::vector<float> sink;

  explicit AttentionInput(const AttentionCase& s)
      : shape(s),
        q(RandomBf16(int64_t{s.num_heads} * s.layout.width, s.seed, s.spread)),
        stored(static_cast<size_t>(s.num_rows * s.layout.row_bytes())),
        sink(RandomFloats(s.num_heads, s.seed + 2)) {
    Store(RandomBf16(s.num_rows * s.layout.width, s.seed + 1));
  }
  void Store(const std::vector<Bf16>& rows) {
    Ref().pack_kv_rows(rows.data(), shape.num_rows, shape.layout, stored.data());
  }
  KernelCall Call() const {
    return [this](const Kernels& kernels, CallBuffers* buffers) {
      const KvRowLayout& layout = shape.layout;
      std::vector<const std::byte*> rows;
      for (int64_t r = 0; r < shape.num_rows; ++r) {
        rows.push_back(stored.data() + r * layout.row_bytes());
      }
      Bf16* const output = buffers->Output(q);
      kernels.sparse_attention(
          {.q = output,
           .num_heads = shape.num_heads,
           .layout = layout,
           .rows = rows.data(),
           .num_rows = shape.num_rows,
           .sink = sink.data(),
           .scale = 1.0f / std::sqrt(static_cast<float>(layout.width)),
           .output = output,
           .scratch = buffers->Scratch<std::byte>(
               kernels.sparse_attention_scratch_bytes(shape.num_heads, layout))});
    };
  }
};

// Almost all outputs have the bits of ref; none is further than the rounding of probabilities.
Verdict NearAttention(CallBuffers* got_buffers, CallBuffers* want_buffers) {
  const std::vector<Bf16> got = got_buffers->Values<Bf16>(0);
  const std::vector<Bf16> want = want_buffers->Values<Bf16>(0);
  int64_t num_different = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const float a = ToFloat(got[i]);
    const float b = ToFloat(want[i]);
    num_different += got[i] != want[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::fabs(a - b) <= 0.01f * std::fabs(b) + 2e-4f)) {
      return {false, fmt::format("output {} is {}, ref has {}", i, a, b)};
    }
  }
  const auto most = 2 + static_cast<int64_t>(want.size()) / 50;
  return {num_different <= most,
          fmt::format("{} of {} outputs differ in the last bits", num_different, want.size())};
}

Verdict Attention(const Kernels& set, const AttentionCase& s) {
  const AttentionInput input(s);
  return AgainstRef(set, input.Call(), NearAttention);
}

// Whether every output is NaN.
Verdict AllNan(CallBuffers* got, CallBuffers*) {
  for (const Bf16 value : got->Values<Bf16>(0)) {
    if (!std::isnan(ToFloat(value))) return {false, fmt::format("{} for NaN", ToFloat(value))};
  }
  return {true, "all NaN"};
}

// A row with NaN, or with a scale that is NaN, comes through to every head.
Verdict AttentionPassesNanOn(const Kernels& set, float special) {
  AttentionInput input({{128, 64, true}, 2, 70});
  auto rows = RandomBf16(70 * 128, 25);
  rows[69 * 128 + 3] = ToBf16(special);
  input.Store(rows);
  return AgainstRef(set, input.Call(), AllNan);
}

Verdict AttentionWithSinks(const Kernels& set, float sink) {
  AttentionInput input({{512, 64, true}, 5, 70});
  std::ranges::fill(input.sink, sink);
  return AgainstRef(set, input.Call(), NearAttention);
}

void AddAttentionChecks(std::vector<KernelCheck>* checks) {
  const auto add = [checks](const std::string& name, auto run) {
    checks->push_back({"sparse_attention", name, run});
  };
  for (const auto& [width, rope, heads] : std::vector<std::array<int32_t, 3>>{
           {64, 64, 1}, {67, 3, 2}, {72, 8, 5}, {144, 16, 7}, {192, 64, 13}, {512, 64, 64}}) {
    for (const bool packed : {true, false}) {
      const KvRowLayout layout{width, rope, packed};
      add(fmt::format("{} heads x {}{}, 1..200 rows", heads, width, packed ? "" : " as bf16"),
          [layout, heads = heads](const Kernels& set) {
            Verdicts verdicts;
            for (const int64_t rows : {1, 3, 5, 63, 64, 66, 127, 200}) {
              verdicts.Add(fmt::format("{} rows", rows), Attention(set, {layout, heads, rows}));
            }
            return verdicts.Total();
          });
    }
  }
  for (const ModelShapes& model : kPublished) {
    const int64_t rows = model.window + model.index_top_k;
    const KvRowLayout layout{model.head_dim, model.rope_width, true};
    add(fmt::format("{}: {} heads x {} rows", model.name, model.num_heads, rows),
        [=](const Kernels& set) {
          return Attention(set, {layout, model.num_heads, rows});
        });
  }
  add("probabilities far apart", [](const Kernels& set) {
    return Attention(set, {{512, 64, true}, 7, 190, 40, 30.0f});
  });
  add("a NaN row", [](const Kernels& set) { return AttentionPassesNanOn(set, kNan); });
  add("an infinite row", [](const Kernels& set) { return AttentionPassesNanOn(set, kInf); });
  for (const float sink : {-kInf, -1000.0f, 60.0f}) {
    add(fmt::format("sinks of {}", sink),
        [=](const Kernels& set) { return AttentionWithSinks(set, sink); });
  }
}

struct ScoreCase {
  int32_t width = 128;
  int32_t num_heads = 64;
  int64_t num_keys = 0;
  int64_t run_length = 0;
  int64_t begin = 0;  // keys [begin, num_keys)
};

// Keys of each run stand by themselves; some scales are NaN where asked for.
Verdict IndexScores(const Kernels& set, const ScoreCase& s, bool with_nan) {
  const IndexRowLayout layout{s.width};
  std::vector<std::byte> q(static_cast<size_t>(s.num_heads * layout.row_bytes()));
  std::vector<std::byte> keys(static_cast<size_t>(s.num_keys * layout.row_bytes()));
  Ref().pack_index_rows(RandomBf16(int64_t{s.num_heads} * s.width, 27).data(), s.num_heads, layout,
                        q.data());
  Ref().pack_index_rows(RandomBf16(s.num_keys * s.width, 28).data(), s.num_keys, layout,
                        keys.data());
  if (with_nan) {  // the last head's last block, and one key
    q.back() = std::byte{0xFF};
    keys[static_cast<size_t>(s.num_keys / 2 * layout.row_bytes() + layout.scale_offset())] =
        std::byte{0xFF};
  }
  std::vector<std::vector<std::byte>> pages;
  std::vector<const std::byte*> runs;
  for (int64_t i = 0; i < s.num_keys; i += s.run_length) {
    const int64_t count = std::min(s.run_length, s.num_keys - i);
    const auto first = keys.begin() + i * layout.row_bytes();
    pages.emplace_back(first, first + count * layout.row_bytes());
  }
  for (const auto& page : pages) runs.push_back(page.data());
  const auto weights = RandomFloats(s.num_heads, 29);
  const KernelCall call = [&](const Kernels& kernels, CallBuffers* buffers) {
    kernels.index_scores({.q = q.data(),
                          .weights = weights.data(),
                          .num_heads = s.num_heads,
                          .layout = layout,
                          .runs = runs.data(),
                          .run_length = s.run_length,
                          .begin = s.begin,
                          .end = s.num_keys,
                          .scores = buffers->Output<float>(s.num_keys - s.begin)});
  };
  const double size = s.num_heads * std::sqrt(static_cast<double>(s.width));
  return AgainstRef(set, call, [&](CallBuffers* got_buffers, CallBuffers* want_buffers) {
    FloatTensor got{got_buffers->Values<float>(0), {s.num_keys - s.begin}};
    FloatTensor want{want_buffers->Values<float>(0), {s.num_keys - s.begin}};
    for (size_t i = 0; i < want.values.size(); ++i) {  // NaN for NaN is right
      if (std::isnan(got.values[i]) && std::isnan(want.values[i])) {
        got.values[i] = want.values[i] = 0;
      }
    }
    return WithinAbsolute(got, want, 1e-5 * size);
  });
}

void AddIndexScoreChecks(std::vector<KernelCheck>* checks) {
  for (const auto& [width, heads] : std::vector<std::pair<int32_t, int32_t>>{
           {32, 1}, {64, 3}, {96, 9}, {128, 64}, {160, 13}, {512, 70}, {2048, 18}}) {
    checks->push_back({"index_scores", fmt::format("{} heads x {}, 1..100 keys", heads, width),
                       [width = width, heads = heads](const Kernels& set) {
                         Verdicts verdicts;
                         for (const int64_t n : {1, 15, 17, 31, 33, 100}) {
                           verdicts.Add(fmt::format("{} keys", n),
                                        IndexScores(set, {width, heads, n, n}, n == 100));
                         }
                         return verdicts.Total();
                       }});
  }
  checks->push_back(
      {"index_scores", "runs of 1, 3 and 32 keys, from any key on", [](const Kernels& set) {
         Verdicts verdicts;
         for (const int64_t run_length : {1, 3, 32}) {
           for (int64_t begin = 0; begin < 40; begin += 3) {
             verdicts.Add(fmt::format("runs of {}, from {}", run_length, begin),
                          IndexScores(set, {128, 5, 77, run_length, begin}, false));
           }
         }
         return verdicts.Total();
       }});
  // Both published configurations have the same heads.
  checks->push_back({"index_scores", "flash and pro: 64 heads x 128, 4096 keys in pages of 32",
                     [](const Kernels& set) {
                       return IndexScores(set, {128, 64, 4096, 32}, false);
                     }});
}

enum class Scores : uint8_t { kRandom, kTies, kMostlyNan, kInfinities, kAscending };

Verdict TopK(const Kernels& set, int64_t n, int64_t count, Scores kind) {
  std::mt19937 rng(19);
  std::vector<float> scores = RandomFloats(n, static_cast<uint32_t>(n + count));
  for (float& s : scores) {
    if (kind == Scores::kTies) s = std::round(s * 2.0f);  // both zeros among them
    if (kind == Scores::kMostlyNan && rng() % 3 != 0) s = rng() % 2 ? kNan : -kInf;
    if (kind == Scores::kInfinities && rng() % 9 == 0) s = kInf;
  }
  if (kind == Scores::kAscending) std::ranges::sort(scores);  // every score above the bar
  return SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    kernels.top_k(scores.data(), n, count, buffers->Output<int32_t>(std::min(n, count)),
                  buffers->Scratch<int32_t>(n));
  });
}

void AddTopKChecks(std::vector<KernelCheck>* checks) {
  for (const auto& [kind, text] : {std::pair{Scores::kRandom, "random scores"},
                                   {Scores::kTies, "ties"},
                                   {Scores::kMostlyNan, "mostly NaN and -inf"},
                                   {Scores::kInfinities, "infinities"},
                                   {Scores::kAscending, "ascending scores"}}) {
    checks->push_back(
        {"top_k", fmt::format("1..4999 of 1..5000, {}", text), [kind = kind](const Kernels& set) {
           Verdicts verdicts;
           for (const int64_t n : {1, 15, 16, 17, 63, 64, 65, 1023, 1100, 5000}) {
             for (const int64_t count : {1, 2, 16, 512, 4999}) {
               verdicts.Add(fmt::format("{} of {}", count, n), TopK(set, n, count, kind));
             }
           }
           return verdicts.Total();
         }});
    for (const ModelShapes& model : kPublished) {
      checks->push_back({"top_k",
                         fmt::format("{}: {} of 262144, {}", model.name, model.index_top_k, text),
                         [kind = kind, count = model.index_top_k](const Kernels& set) {
                           return TopK(set, 262144, count, kind);
                         }});
    }
  }
}

// num_rows rows of kv and of score; those of score have -inf and NaN among them.
Verdict Pool(const Kernels& set, int32_t width, int32_t num_rows) {
  std::vector<std::vector<float>> kv, score;
  std::vector<const float*> kv_rows, score_rows;
  for (int32_t r = 0; r < num_rows; ++r) {
    kv.push_back(RandomFloats(width, static_cast<uint32_t>(100 + r)));
    // All of one sign: no cancellation blows up the difference of two orders.
    for (float& v : kv.back()) v = std::fabs(v);
    score.push_back(RandomFloats(width, static_cast<uint32_t>(300 + r), 10.0f));
    if (r == 1) score.back()[0] = -kInf;
    if (r == 2) score.back()[static_cast<size_t>(width - 1)] = kNan;
  }
  for (const auto& row : kv) kv_rows.push_back(row.data());
  for (const auto& row : score) score_rows.push_back(row.data());
  const KernelCall call = [&](const Kernels& kernels, CallBuffers* buffers) {
    kernels.pool({.kv = kv_rows.data(),
                  .score = score_rows.data(),
                  .num_rows = num_rows,
                  .width = width,
                  .output = buffers->Output<Bf16>(width)});
  };
  return NearRef(set, call, 1);
}

void AddPoolChecks(std::vector<KernelCheck>* checks) {
  for (const int32_t rows : {1, 3, 8, 128}) {
    checks->push_back({"pool", fmt::format("{} rows x 1..70", rows), [=](const Kernels& set) {
                         Verdicts verdicts;
                         for (int32_t width = 1; width <= 70; ++width) {
                           verdicts.Add(fmt::format("width {}", width), Pool(set, width, rows));
                         }
                         return verdicts.Total();
                       }});
  }
  // Both published configurations: entries of ratio 4 (two windows) and 128, keys of the indexer.
  for (const auto& [rows, width] : {std::pair<int32_t, int32_t>{8, 512}, {128, 512}, {8, 128}}) {
    checks->push_back(
        {"pool", fmt::format("flash and pro: {} rows x {}", rows, width),
         [rows = rows, width = width](const Kernels& set) { return Pool(set, width, rows); }});
  }
}

}  // namespace

std::vector<KernelCheck> SelectionChecks() {
  std::vector<KernelCheck> checks;
  AddAttentionChecks(&checks);
  AddIndexScoreChecks(&checks);
  AddTopKChecks(&checks);
  AddPoolChecks(&checks);
  return checks;
}

}  // namespace dsv4::test
