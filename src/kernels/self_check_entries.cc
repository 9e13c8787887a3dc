// Fixed inputs through every entry of a table. The answers come from scripts/self_check_answers.py,
// which makes the same inputs (Wave, Raw, …) on its own.
#include "kernels/self_check_entries.h"

#include <limits>
#include <span>
#include <vector>

namespace dsv4::kernels {
namespace {

constexpr float kEps = 1e-6f;

// Multiples of 1/32 below 4: exact in bf16.
float Wave(int64_t i, int64_t seed) {
  return static_cast<float>((i * i * 7 + i * 37 + seed * 101) % 255 - 127) / 32.0f;
}

std::vector<float> Waves(int64_t n, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(Wave(i, seed));
  return values;
}

std::vector<Bf16> Bf16Waves(int64_t n, int64_t seed, float factor = 1.0f) {
  std::vector<Bf16> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(ToBf16(Wave(i, seed) * factor));
  return values;
}

// Bytes below 127: no E4M3 code among them is NaN.
std::vector<std::byte> Raw(int64_t n, int64_t seed) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < n; ++i) {
    bytes.push_back(static_cast<std::byte>((i * 37 + i * i * 3 + seed) % 127));
  }
  return bytes;
}

void Append(std::vector<std::byte>* bytes, std::span<const std::byte> more) {
  bytes->insert(bytes->end(), more.begin(), more.end());
}

std::vector<std::byte> RawIndexRows(IndexRowLayout layout, int64_t num_rows, int64_t seed) {
  std::vector<std::byte> rows;
  for (int64_t r = 0; r < num_rows; ++r) {
    Append(&rows, Raw(layout.width / 2, seed + r));
    for (int i = 0; i < layout.width / 32; ++i) rows.push_back(static_cast<std::byte>(124 + i % 3));
  }
  return rows;
}

std::vector<std::byte> RawKvRows(KvRowLayout layout, int64_t num_rows, int64_t seed) {
  std::vector<std::byte> rows;
  for (int64_t r = 0; r < num_rows; ++r) {
    const size_t begin = rows.size();
    Append(&rows, Raw(layout.num_codes(), seed + r));
    const std::vector<Bf16> rope = Bf16Waves(layout.rope_width, seed + r);
    Append(&rows, std::as_bytes(std::span(rope)));
    for (int i = 0; i < layout.num_codes() / 64; ++i) {
      rows.push_back(static_cast<std::byte>(120 + i % 3));
    }
    rows.resize(begin + static_cast<size_t>(layout.row_bytes()));
  }
  return rows;
}

double AsDouble(Bf16 value) { return ToFloat(value); }
double AsDouble(std::byte value) { return std::to_integer<int>(value); }
template <class T>
double AsDouble(T value) {
  return static_cast<double>(value);
}

// sum (1 + i mod 7) values[i]: no single value can change unseen.
template <class T>
double Digest(const std::vector<T>& values) {
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(1 + i % 7) * AsDouble(values[i]);
  }
  return sum;
}

Digests ActQuant(const Kernels& k) {
  Digests digests;
  const std::vector<Bf16> x = Bf16Waves(2 * 192, 1);
  for (const ActScale scale : {ActScale::kExact, ActScale::kPowerOfTwo}) {
    std::vector<uint8_t> codes(x.size());
    std::vector<float> scales(4);
    k.act_quant(x.data(), 2, 192, 128, scale, codes.data(), scales.data());
    digests.push_back(Digest(codes));
    digests.push_back(Digest(scales));
  }
  return digests;
}

Digests ActQuantInPlace(const Kernels& k) {
  Digests digests;
  for (const ActScale scale : {ActScale::kExact, ActScale::kPowerOfTwo}) {
    std::vector<Bf16> x = Bf16Waves(2 * 192, 1);
    k.act_quant_in_place(x.data(), 2, 192, 128, scale);
    digests.push_back(Digest(x));
  }
  return digests;
}

Digests PackIndexRows(const Kernels& k) {
  const IndexRowLayout layout{64};
  std::vector<std::byte> packed(static_cast<size_t>(2 * layout.row_bytes()));
  k.pack_index_rows(Bf16Waves(2 * 64, 2).data(), 2, layout, packed.data());
  return {Digest(packed)};
}

Digests UnpackIndexRows(const Kernels& k) {
  const IndexRowLayout layout{64};
  std::vector<Bf16> x(2 * 64);
  k.unpack_index_rows(RawIndexRows(layout, 2, 5).data(), 2, layout, x.data());
  return {Digest(x)};
}

Digests PackKvRows(const Kernels& k) {
  const std::vector<Bf16> x = Bf16Waves(2 * 192, 3);
  const KvRowLayout layout{192, 64, true};
  std::vector<std::byte> packed(static_cast<size_t>(2 * layout.row_bytes()));
  k.pack_kv_rows(x.data(), 2, layout, packed.data());
  std::vector<Bf16> plain(x.size());
  k.pack_kv_rows(x.data(), 2, {192, 64, false}, reinterpret_cast<std::byte*>(plain.data()));
  return {Digest(packed), Digest(plain)};
}

Digests UnpackKvRows(const Kernels& k) {
  const KvRowLayout layout{192, 64, true};
  std::vector<Bf16> x(192);
  k.unpack_kv_rows(RawKvRows(layout, 1, 7).data(), 1, layout, x.data());
  return {Digest(x)};
}

// The products of self_check_answers.py: 3 rows of 192 columns against weight rows 3 to 17 of 20.
constexpr int64_t kProductCols = 192;
constexpr int64_t kProductRows = 3;

double ProductDigest(const Kernels& k, Activation activation, ActScale scale,
                     const WeightView& weight) {
  const std::vector<Bf16> x = Bf16Waves(kProductRows * kProductCols, 4);
  std::vector<std::byte> prepared(
      static_cast<size_t>(kProductRows * k.prepared_row_bytes(activation, kProductCols, 128)));
  k.prepare({.x = x.data(),
             .x_stride = kProductCols,
             .num_rows = kProductRows,
             .cols = kProductCols,
             .activation = activation,
             .scale = scale,
             .block = 128,
             .prepared = prepared.data()});
  std::vector<float> y(kProductRows * 14);
  k.product({.prepared = prepared.data(),
             .num_rows = kProductRows,
             .activation = activation,
             .scale = scale,
             .block = 128,
             .weight = &weight,
             .begin = 3,
             .end = 17,
             .output_type = OutputType::kF32,
             .output = y.data(),
             .output_stride = 14});
  return Digest(y);
}

Digests Product(const Kernels& k) {
  constexpr auto kQuantized = Activation::kQuantized;
  constexpr auto kPlain = Activation::kPlain;
  const std::vector<std::byte> fp8 = Raw(20 * kProductCols, 9);
  const std::vector<std::byte> fp4 = Raw(20 * kProductCols / 2, 10);
  const std::vector<Bf16> bf16 = Bf16Waves(20 * kProductCols, 11);
  std::vector<float> f32 = Waves(20 * kProductCols, 11);
  for (float& value : f32) value *= 1.0f + 0x1p-12f;
  std::vector<std::byte> tile_scales;
  std::vector<float> float_scales;
  std::vector<std::byte> row_scales;
  for (int i = 0; i < 9; ++i) {
    tile_scales.push_back(static_cast<std::byte>(118 + i % 5));
    float_scales.push_back(static_cast<float>(1 + i) / 1024.0f);
  }
  for (int i = 0; i < 20 * 6; ++i) row_scales.push_back(static_cast<std::byte>(124 + i % 5));
  const WeightView tiles{WeightFormat::kFp8,
                         ScaleFormat::kE8m0,
                         fp8.data(),
                         tile_scales.data(),
                         20,
                         kProductCols,
                         8,
                         64};
  WeightView floats = tiles;
  floats.scale_format = ScaleFormat::kF32;
  floats.scale = std::as_bytes(std::span(float_scales)).data();
  const WeightView nibbles{WeightFormat::kFp4,
                           ScaleFormat::kE8m0,
                           fp4.data(),
                           row_scales.data(),
                           20,
                           kProductCols,
                           1,
                           32};
  WeightView plain{.rows = 20, .cols = kProductCols};
  plain.data = std::as_bytes(std::span(bf16)).data();
  WeightView wide = plain;
  wide.format = WeightFormat::kF32;
  wide.data = std::as_bytes(std::span(f32)).data();
  return {ProductDigest(k, kQuantized, ActScale::kPowerOfTwo, tiles),
          ProductDigest(k, kQuantized, ActScale::kExact, floats),
          ProductDigest(k, kQuantized, ActScale::kPowerOfTwo, nibbles),
          ProductDigest(k, kPlain, ActScale::kPowerOfTwo, floats),
          ProductDigest(k, kPlain, ActScale::kPowerOfTwo, plain),
          ProductDigest(k, kPlain, ActScale::kPowerOfTwo, wide)};
}

Digests RmsFactor(const Kernels& k) {
  std::vector<float> r(2);
  k.rms_factor(Bf16Waves(200, 5).data(), 2, 100, kEps, r.data());
  return {Digest(r)};
}

Digests RmsNorm(const Kernels& k) {
  std::vector<Bf16> weighted(200);
  std::vector<Bf16> plain(200);
  k.rms_norm(Bf16Waves(200, 5).data(), Bf16Waves(100, 6).data(), 2, 100, kEps, weighted.data());
  k.rms_norm(Bf16Waves(200, 5).data(), nullptr, 2, 100, kEps, plain.data());
  return {Digest(weighted), Digest(plain)};
}

Digests Rope(const Kernels& k) {
  constexpr float kTurns[5][2] = {{0.6f, 0.8f}, {-0.28f, 0.96f}, {1, 0}, {0, 1}, {0.96f, -0.28f}};
  Digests digests;
  for (const bool inverse : {false, true}) {
    std::vector<float> cos, sin;
    for (int row = 0; row < 2; ++row) {
      for (int i = 0; i < 32; ++i) {
        cos.push_back(kTurns[(row + i) % 5][0]);
        sin.push_back(kTurns[(row + i) % 5][1]);
      }
    }
    // Each head is 72 wide here: its last 8 values must stay.
    std::vector<Bf16> x;
    for (int head = 0; head < 4; ++head) {
      for (int i = 0; i < 72; ++i) x.push_back(ToBf16(Wave(head * 72 + i, 7)));
    }
    k.rope({.x = x.data(),
            .num_rows = 2,
            .row_stride = 144,
            .num_heads = 2,
            .head_stride = 72,
            .width = 64,
            .cos = cos.data(),
            .sin = sin.data(),
            .inverse = inverse});
    digests.push_back(Digest(x));
  }
  return digests;
}

Digests Hadamard(const Kernels& k) {
  std::vector<Bf16> x = Bf16Waves(64, 8);
  const std::vector<Bf16> more = Bf16Waves(64, 9);
  x.insert(x.end(), more.begin(), more.end());
  k.hadamard(x.data(), 2, 64);
  return {Digest(x)};
}

Digests HcSplit(const Kernels& k) {
  const float scale[3] = {0.5f, 0.75f, 1.25f};
  const std::vector<float> base = Waves(24, 12);
  const std::vector<float> mixes = Waves(48, 13);
  std::vector<float> pre(8), post(8), comb(32);
  k.hc_split({.mixes = mixes.data(),
              .num_rows = 2,
              .hc = 4,
              .sinkhorn_iters = 20,
              .eps = kEps,
              .scale = scale,
              .base = base.data(),
              .pre = pre.data(),
              .post = post.data(),
              .comb = comb.data()});
  return {Digest(pre), Digest(post), Digest(comb)};
}

Digests HcHeadPre(const Kernels& k) {
  std::vector<float> pre(8);
  k.hc_head_pre(Waves(8, 14).data(), 2, 4, 0.5f, Waves(24, 12).data(), kEps, pre.data());
  return {Digest(pre)};
}

Digests HcCombine(const Kernels& k) {
  std::vector<Bf16> x(140);
  k.hc_combine(Bf16Waves(560, 15).data(), Waves(8, 16).data(), 2, 4, 70, x.data());
  return {Digest(x)};
}

Digests HcPost(const Kernels& k) {
  std::vector<Bf16> h = Bf16Waves(560, 15);
  k.hc_post(Bf16Waves(140, 19).data(), Waves(8, 17).data(), Waves(32, 18).data(), 2, 4, 70,
            h.data());
  return {Digest(h)};
}

Digests SparseAttention(const Kernels& k) {
  constexpr int32_t kHeads = 3;
  constexpr int32_t kWidth = 128;
  constexpr int64_t kRows = 70;  // a whole tile and a part
  const float sink[kHeads] = {3.0f, -std::numeric_limits<float>::infinity(), 60.0f};
  const std::vector<Bf16> q = Bf16Waves(kHeads * kWidth, 20);
  const std::vector<Bf16> plain = Bf16Waves(kRows * kWidth, 21, 0.25f);
  Digests digests;
  for (const bool packed : {false, true}) {
    const KvRowLayout layout{kWidth, 64, packed};
    const std::vector<std::byte> raw = RawKvRows({kWidth, 64, true}, kRows, 22);
    const std::byte* const data = packed ? raw.data() : std::as_bytes(std::span(plain)).data();
    std::vector<const std::byte*> rows;
    for (int64_t r = 0; r < kRows; ++r) rows.push_back(data + r * layout.row_bytes());
    std::vector<std::byte> scratch(
        static_cast<size_t>(k.sparse_attention_scratch_bytes(kHeads, layout)));
    std::vector<Bf16> o(q.size());
    k.sparse_attention({.q = q.data(),
                        .num_heads = kHeads,
                        .layout = layout,
                        .rows = rows.data(),
                        .num_rows = kRows,
                        .sink = sink,
                        .scale = 0.0625f,
                        .output = o.data(),
                        .scratch = scratch.data()});
    for (int h = 0; h < kHeads; ++h) {
      digests.push_back(Digest(std::vector(o.begin() + h * kWidth, o.begin() + (h + 1) * kWidth)));
    }
  }
  return digests;
}

Digests IndexScores(const Kernels& k) {
  const IndexRowLayout layout{64};
  const std::vector<std::byte> q = RawIndexRows(layout, 3, 30);
  const std::vector<std::byte> keys = RawIndexRows(layout, 40, 40);
  const float weights[3] = {0.5f, -0.25f, 1.5f};
  std::vector<const std::byte*> runs;
  for (int64_t i = 0; i < 40; i += 16) runs.push_back(keys.data() + i * layout.row_bytes());
  std::vector<float> scores(34);
  k.index_scores({.q = q.data(),
                  .weights = weights,
                  .num_heads = 3,
                  .layout = layout,
                  .runs = runs.data(),
                  .run_length = 16,
                  .begin = 5,
                  .end = 39,
                  .scores = scores.data()});
  return {Digest(scores)};
}

Digests TopK(const Kernels& k) {
  std::vector<float> scores = Waves(50, 23);
  for (size_t i = 0; i < scores.size(); i += 4) scores[i] = 1.0f;
  Digests digests;
  for (const int64_t count : {1, 17, 50}) {
    std::vector<int32_t> indices(static_cast<size_t>(count));
    std::vector<int32_t> scratch(50);
    k.top_k(scores.data(), 50, count, indices.data(), scratch.data());
    digests.push_back(Digest(indices));
  }
  return digests;
}

Digests Pool(const Kernels& k) {
  const std::vector<float> kv = Waves(9 * 70, 24);
  const std::vector<float> score = Waves(9 * 70, 25);
  const float* kv_rows[9];
  const float* score_rows[9];
  for (int r = 0; r < 9; ++r) {
    kv_rows[r] = kv.data() + r * 70;
    score_rows[r] = score.data() + r * 70;
  }
  std::vector<Bf16> output(70);
  k.pool({.kv = kv_rows, .score = score_rows, .num_rows = 9, .width = 70, .output = output.data()});
  return {Digest(output)};
}

Digests Route(const Kernels& k) {
  const std::vector<float> z = Waves(16, 26);
  std::vector<float> bias = Waves(16, 27);
  for (float& value : bias) value /= 4.0f;
  const int64_t fixed[4] = {3, 0, 15, 8};
  Digests digests;
  for (const auto function :
       {ScoreFunction::kSqrtSoftplus, ScoreFunction::kSigmoid, ScoreFunction::kSoftmax}) {
    std::vector<float> scores(16), weights(4);
    std::vector<int32_t> chosen(4);
    for (const bool hash : {false, true}) {
      k.route({.z = z.data(),
               .num_experts = 16,
               .num_chosen = 4,
               .function = function,
               .bias = hash ? nullptr : bias.data(),
               .fixed = hash ? fixed : nullptr,
               .route_scale = 2.5f,
               .scores = scores.data(),
               .chosen = chosen.data(),
               .weights = weights.data()});
      digests.push_back(Digest(chosen));
      digests.push_back(Digest(weights));
    }
    digests.push_back(Digest(scores));
  }
  return digests;
}

Digests Swiglu(const Kernels& k) {
  const float weights[2] = {0.5f, 1.25f};
  Digests digests;
  for (const bool clamped : {true, false}) {
    std::vector<Bf16> gate = Bf16Waves(140, 28, 4.0f);
    const std::vector<Bf16> up = Bf16Waves(140, 29, 4.0f);
    k.swiglu({.gate = gate.data(),
              .up = up.data(),
              .num_rows = 2,
              .width = 70,
              .limit = clamped ? 10.0f : 0.0f,
              .weights = clamped ? weights : nullptr,
              .output = gate.data()});
    digests.push_back(Digest(gate));
  }
  return digests;
}

}  // namespace

std::span<const EntryCheck> EntryChecks() {
  static constexpr EntryCheck kChecks[] = {
      {"act_quant", ActQuant},
      {"act_quant_in_place", ActQuantInPlace},
      {"pack_index_rows", PackIndexRows},
      {"unpack_index_rows", UnpackIndexRows},
      {"pack_kv_rows", PackKvRows},
      {"unpack_kv_rows", UnpackKvRows},
      {"product", Product},
      {"rms_norm", RmsNorm},
      {"rms_factor", RmsFactor},
      {"rope", Rope},
      {"hadamard", Hadamard},
      {"hc_split", HcSplit},
      {"hc_head_pre", HcHeadPre},
      {"hc_combine", HcCombine},
      {"hc_post", HcPost},
      {"sparse_attention", SparseAttention},
      {"index_scores", IndexScores},
      {"top_k", TopK},
      {"pool", Pool},
      {"route", Route},
      {"swiglu", Swiglu},
  };
  return kChecks;
}

}  // namespace dsv4::kernels
