// Attention and the indexer over stored rows from memory; the choice and pooling of what they made.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "kernels/dispatch.h"
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

// About a million tokens in entries of 4.
constexpr int64_t kManyEntries = 262144;

template <class T>
std::shared_ptr<std::vector<T>> Share(std::vector<T> values) {
  return std::make_shared<std::vector<T>>(std::move(values));
}

template <class Layout>
std::vector<std::byte> Packed(void (*Kernels::*pack)(const Bf16*, int64_t, Layout, std::byte*),
                              int64_t num_rows, Layout layout) {
  std::vector<std::byte> packed(static_cast<size_t>(num_rows * layout.row_bytes()));
  ((**kernels::Choose("ref")).*pack)(RandomBf16(num_rows * layout.width, 1).data(), num_rows,
                                     layout, packed.data());
  return packed;
}

// What queries attend to: the window's rows, then entries out of `span` rows.
struct Attended {
  const char* what;
  int64_t num_queries;
  int64_t num_entries;
  int64_t span;
};

struct PerfAttention {
  ModelShapes model;
  KvRowLayout layout;
  std::vector<Bf16> q;
  std::vector<Bf16> output;
  std::vector<float> sink;
  std::vector<int64_t> offsets;  // of the rows, from the first that may be chosen
  std::vector<std::vector<const std::byte*>> rows;  // by thread
  std::vector<std::vector<std::byte>> scratch;

  PerfAttention(const Kernels& set, const ModelShapes& m, const Attended& a, int num_threads)
      : model(m),
        layout{m.head_dim, m.rope_width, true},
        q(RandomBf16(a.num_queries * m.q_dim(), 2)),
        output(q.size()),
        sink(RandomFloats(m.num_heads, 3)),
        rows(static_cast<size_t>(num_threads)),
        scratch(static_cast<size_t>(num_threads)) {
    for (int64_t i = 0; i < m.window; ++i) offsets.push_back(i * layout.row_bytes());
    std::mt19937 rng(4);
    std::vector<int64_t> entries(static_cast<size_t>(a.span - m.window));
    for (size_t i = 0; i < entries.size(); ++i) entries[i] = m.window + static_cast<int64_t>(i);
    std::shuffle(entries.begin(), entries.end(), rng);
    std::sort(entries.begin(), entries.begin() + a.num_entries);
    for (int64_t i = 0; i < a.num_entries; ++i) {
      offsets.push_back(entries[static_cast<size_t>(i)] * layout.row_bytes());
    }
    for (auto& s : scratch) {
      s.resize(static_cast<size_t>(set.sparse_attention_scratch_bytes(m.num_heads, layout)));
    }
  }

  // Heads [begin, end) counted over all queries; those of a query go to one call.
  void Run(const Kernels& set, const std::byte* cold, int64_t begin, int64_t end, int thread) {
    auto& pointers = rows[static_cast<size_t>(thread)];
    pointers.clear();
    for (const int64_t offset : offsets) pointers.push_back(cold + offset);
    while (begin < end) {
      const int64_t stop = std::min(end, (begin / model.num_heads + 1) * model.num_heads);
      set.sparse_attention({.q = q.data() + begin * layout.width,
                            .num_heads = static_cast<int32_t>(stop - begin),
                            .layout = layout,
                            .rows = pointers.data(),
                            .num_rows = static_cast<int64_t>(pointers.size()),
                            .sink = sink.data() + begin % model.num_heads,
                            .scale = 1.0f / std::sqrt(static_cast<float>(layout.width)),
                            .output = output.data() + begin * layout.width,
                            .scratch = scratch[static_cast<size_t>(thread)].data()});
      begin = stop;
    }
  }
};

void AddAttention(std::vector<PerfCase>* cases, const ModelShapes& model, const Attended& a) {
  const KvRowLayout layout{model.head_dim, model.rope_width, true};
  const int64_t attended = model.window + a.num_entries;
  PerfCase perf;
  perf.op = "sparse_attention";
  perf.name = fmt::format("{} {} {} x {} heads x {} rows", model.name, a.what, a.num_queries,
                          model.num_heads, attended);
  perf.items = a.num_queries * model.num_heads;
  // As the engine does: whole queries, or a query's heads in one group for each thread.
  perf.grain = [=, heads = int64_t{model.num_heads}](int num_threads) {
    const int64_t groups = (num_threads + a.num_queries - 1) / a.num_queries;
    return (heads + groups - 1) / groups;
  };
  perf.bytes = static_cast<double>(attended * layout.row_bytes());
  perf.flops = 4.0 * static_cast<double>(a.num_queries * attended * model.q_dim());
  perf.cold = {.bytes = a.span * layout.row_bytes(),
               .unit = layout.row_bytes(),
               .contents = "kv rows",
               .make = [=] { return Packed(&Kernels::pack_kv_rows, 2048, layout); }};
  perf.prepare = [=](const Kernels& set, int num_threads) {
    const auto attention = std::make_shared<PerfAttention>(set, model, a, num_threads);
    return [attention, &set](const std::byte* cold, int64_t begin, int64_t end, int thread) {
      attention->Run(set, cold, begin, end, thread);
    };
  };
  cases->push_back(std::move(perf));
}

void AddIndexScores(std::vector<PerfCase>* cases, int64_t num_keys) {
  const ModelShapes& model = kPublished[0];  // both have the same
  const IndexRowLayout layout{model.index_width};
  constexpr int64_t kPage = 32;
  PerfCase perf;
  perf.op = "index_scores";
  perf.name = fmt::format("flash and pro {} heads x {} keys", model.index_heads, num_keys);
  perf.items = num_keys;
  perf.grain = [](int) { return kIndexKeysPerClaim; };
  perf.bytes = static_cast<double>(num_keys * layout.row_bytes());
  perf.flops = 2.0 * static_cast<double>(num_keys) * model.index_heads * model.index_width;
  perf.cold = {.bytes = num_keys * layout.row_bytes(),
               .unit = layout.row_bytes(),
               .contents = "index rows",
               .make = [=] { return Packed(&Kernels::pack_index_rows, 8192, layout); }};
  perf.prepare = [=](const Kernels& set, int num_threads) -> PerfCall {
    const auto q = Share(Packed(&Kernels::pack_index_rows, model.index_heads, layout));
    const auto weights = Share(RandomFloats(model.index_heads, 5));
    const auto scores = Share(std::vector<float>(static_cast<size_t>(num_keys)));
    const auto runs = Share(std::vector<std::vector<const std::byte*>>(
        static_cast<size_t>(num_threads),
        std::vector<const std::byte*>(static_cast<size_t>(kIndexKeysPerClaim / kPage))));
    return [=, &set](const std::byte* cold, int64_t begin, int64_t end, int thread) {
      auto& pages = (*runs)[static_cast<size_t>(thread)];
      for (size_t i = 0; i < pages.size(); ++i) {
        pages[i] = cold + (begin + static_cast<int64_t>(i) * kPage) * layout.row_bytes();
      }
      set.index_scores({.q = q->data(),
                        .weights = weights->data(),
                        .num_heads = model.index_heads,
                        .layout = layout,
                        .runs = pages.data(),
                        .run_length = kPage,
                        .begin = 0,
                        .end = end - begin,
                        .scores = scores->data() + begin});
    };
  };
  cases->push_back(std::move(perf));
}

// One thread chooses for one row.
void AddTopK(std::vector<PerfCase>* cases, const ModelShapes& model, int64_t n) {
  PerfCase perf;
  perf.op = "top_k";
  perf.name = fmt::format("{} {} of {}", model.name, model.index_top_k, n);
  perf.items = 1;
  perf.grain = [](int) { return 1; };
  perf.bytes = 4.0 * static_cast<double>(n);
  perf.prepare = [n, count = model.index_top_k](const Kernels& set, int) -> PerfCall {
    const auto scores = Share(RandomFloats(n, 6));
    const auto scratch = Share(std::vector<int32_t>(static_cast<size_t>(n)));
    const auto indices = Share(std::vector<int32_t>(static_cast<size_t>(count)));
    return [=, &set](const std::byte*, int64_t, int64_t, int) {
      set.top_k(scores->data(), n, count, indices->data(), scratch->data());
    };
  };
  cases->push_back(std::move(perf));
}

// Entries of num_rows rows each.
void AddPool(std::vector<PerfCase>* cases, int64_t num_entries, int32_t num_rows, int32_t width) {
  const int64_t values = int64_t{num_rows} * width;
  PerfCase perf;
  perf.op = "pool";
  perf.name = fmt::format("flash and pro {} x {} rows x {}", num_entries, num_rows, width);
  perf.items = num_entries;
  perf.grain = [=](int num_threads) { return Grain(num_entries, values * 8, num_threads); };
  perf.bytes = static_cast<double>(num_entries * (8 * values + 2 * width));
  perf.flops = 5.0 * static_cast<double>(num_entries * values);
  perf.prepare = [=](const Kernels& set, int) -> PerfCall {
    const auto kv = Share(RandomFloats(num_entries * values, 7));
    const auto score = Share(RandomFloats(num_entries * values, 8, 3.0f));
    std::vector<const float*> kv_rows, score_rows;
    for (int64_t r = 0; r < num_entries * num_rows; ++r) {
      kv_rows.push_back(kv->data() + r * width);
      score_rows.push_back(score->data() + r * width);
    }
    const auto output = Share(std::vector<Bf16>(static_cast<size_t>(num_entries * width)));
    return
        [=, &set, keep = std::pair(kv, score)](const std::byte*, int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) {
            set.pool({.kv = kv_rows.data() + i * num_rows,
                      .score = score_rows.data() + i * num_rows,
                      .num_rows = num_rows,
                      .width = width,
                      .output = output->data() + i * width});
          }
        };
  };
  cases->push_back(std::move(perf));
}

}  // namespace

std::vector<PerfCase> SelectionPerfCases() {
  std::vector<PerfCase> cases;
  for (const ModelShapes& model : kPublished) {
    const int64_t chosen = model.index_top_k;
    AddAttention(&cases, model, {"window", 1, 0, 2 * model.window});
    AddAttention(&cases, model, {"chosen entries", 1, chosen, 16384});
    AddAttention(&cases, model, {"chosen entries", 64, chosen, 16384});
    // All entries of 128 tokens, of about a million tokens.
    AddAttention(&cases, model, {"all entries", 1, 8192, model.window + 8192});
  }
  AddIndexScores(&cases, 16384);
  AddIndexScores(&cases, kManyEntries);
  for (const ModelShapes& model : kPublished) {
    AddTopK(&cases, model, 16384);
    AddTopK(&cases, model, kManyEntries);
  }
  for (const auto& [rows, width] : {std::pair<int32_t, int32_t>{8, 512}, {128, 512}, {8, 128}}) {
    AddPool(&cases, 1, rows, width);
    AddPool(&cases, 512 / (rows == 8 ? 4 : 128), rows, width);
  }
  return cases;
}

}  // namespace dsv4::tools
