// The indexer's scores. Include it inside a target region, after row_loops-inl.h and vec_words.h;
// IndexVec is the RowVec of the set, or one with better dot products of bytes.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

// Twice an FP4 value is a whole number up to 12, and within a block of 32 columns all products have
// one scale: their sum is exact in integers, whatever the order. Keys are held as 0…24 (12 added),
// a lane holds four columns of one key, and 12 times the sum of the query's block is subtracted.
// score = sum_h max(0, sum_blocks (sum * key scale) * (query scale / 4)) * weight_h.
constexpr int64_t kIndexVecs = 2;
constexpr int64_t kKeysAtOnce = kIndexVecs * kLanes;
constexpr int64_t kMaxIndexWidth = 2048;
constexpr int64_t kQueryBytes = 32768;  // of the heads that are held at a time
constexpr int64_t kIndexBlock = IndexRowLayout::kBlock;
constexpr int64_t kBlockLanes = kIndexBlock / 4;

struct IndexQueries {
  // [num_heads, width]: twice the values. A whole vector is written at the end.
  alignas(64) std::byte bytes[kQueryBytes + 4 * kLanes];
  int32_t start[kQueryBytes / kIndexBlock];  // [num_heads, num_blocks]: -12 * sum of the block
  float scale[kQueryBytes / kIndexBlock];    // [num_heads, num_blocks], quartered
  int64_t width;
  int64_t num_blocks;
};

struct IndexKeys {
  alignas(64) std::byte bytes[kMaxIndexWidth * kKeysAtOnce];  // [width / 4][kKeysAtOnce][4]
  alignas(64) float scale[kMaxIndexWidth / kIndexBlock * kKeysAtOnce];  // [num_blocks][kKeysAtOnce]
};

void DecodeQueries(const IndexScoreArgs& args, int64_t head, int64_t num_heads,
                   IndexQueries* queries) {
  const int64_t width = args.layout.width;
  const std::byte* row = args.q + head * args.layout.row_bytes();
  auto* block = reinterpret_cast<const int8_t*>(queries->bytes);
  for (int64_t h = 0; h < num_heads; ++h, row += args.layout.row_bytes()) {
    for (int64_t i = 0; i < width; i += 4 * kLanes) {
      const int64_t n = LanesLeft(i / 4, width / 4);
      // The lanes behind the last are overwritten by the next head.
      const RowVec::I values = RowVec::KeyBytes(RowVec::LoadWords(row + i / 2, n));
      RowVec::StoreI(RowVec::SubtractBytes(values, RowVec::SetI(0x0C0C0C0C)),
                     queries->bytes + h * width + i);
    }
    for (int64_t b = 0; b < queries->num_blocks; ++b, block += kIndexBlock) {
      int32_t sum = 0;
      for (int64_t i = 0; i < kIndexBlock; ++i) sum += block[i];
      queries->start[h * queries->num_blocks + b] = -12 * sum;
      queries->scale[h * queries->num_blocks + b] =
          DecodeE8m0(static_cast<uint8_t>(row[args.layout.scale_offset() + b])) * 0.25f;
    }
  }
}

// Keys [key, key + n); those behind are the last one again.
void DecodeKeys(const IndexScoreArgs& args, int64_t key, int64_t n, IndexKeys* keys) {
  const std::byte* rows[kKeysAtOnce];
  int64_t run = key / args.run_length;
  int64_t in_run = key % args.run_length;
  for (int64_t i = 0; i < kKeysAtOnce; ++i) {
    rows[i] = args.runs[run] + in_run * args.layout.row_bytes();
    if (i + 1 >= n) continue;
    if (++in_run == args.run_length) {
      ++run;
      in_run = 0;
    }
  }
  constexpr int64_t kWords = 8;
  for (int64_t word = 0; word < args.layout.width / 4; word += kWords) {
    uint16_t words[kWords * kKeysAtOnce];
    for (int64_t i = 0; i < kKeysAtOnce; i += kWords) {
      TransposeWords(rows + i, word * 2, words + i, kKeysAtOnce);
    }
    for (int64_t i = 0; i < kWords * kKeysAtOnce; i += kLanes) {
      RowVec::StoreI(RowVec::KeyBytes(RowVec::LoadWords(words + i)),
                     keys->bytes + (word * kKeysAtOnce + i) * 4);
    }
  }
  for (int64_t b = 0; b < args.layout.width / kIndexBlock; ++b) {
    float* const scale = keys->scale + b * kKeysAtOnce;
    for (int64_t i = 0; i < kKeysAtOnce; ++i) {
      scale[i] = DecodeE8m0(static_cast<uint8_t>(rows[i][args.layout.scale_offset() + b]));
    }
  }
}

// scores[v] += max(0, dot of head and keys) * weight for kHeads heads, in their order.
template <int kHeads>
DSV4_INLINE void ScoreTile(const IndexQueries& queries, const IndexKeys& keys, int64_t head,
                           const float* weights, F* scores) {
  F totals[kHeads][kIndexVecs];
  for (auto& total : totals) {
    for (F& t : total) t = RowVec::Zero();
  }
  const std::byte* q = queries.bytes + head * queries.width;
  const std::byte* key = keys.bytes;
  for (int64_t b = 0; b < queries.num_blocks; ++b) {
    const int64_t at = head * queries.num_blocks + b;
    RowVec::I sums[kHeads][kIndexVecs];
    for (int h = 0; h < kHeads; ++h) {
      for (auto& sum : sums[h])
        sum = IndexVec::DotStart(queries.start[at + h * queries.num_blocks]);
    }
    for (int64_t i = 0; i < kBlockLanes; ++i, q += 4, key += kKeysAtOnce * 4) {
      RowVec::I four[kIndexVecs];
      for (int v = 0; v < kIndexVecs; ++v) four[v] = RowVec::LoadI(key + v * kLanes * 4);
      for (int h = 0; h < kHeads; ++h) {
        int32_t bytes;
        std::memcpy(&bytes, q + h * queries.width, sizeof(bytes));
        const RowVec::I query = RowVec::SetI(bytes);
        for (int v = 0; v < kIndexVecs; ++v) {
          sums[h][v] = IndexVec::DotAdd(sums[h][v], four[v], query);
        }
      }
    }
    for (int v = 0; v < kIndexVecs; ++v) {
      const F key_scale = RowVec::Load(keys.scale + b * kKeysAtOnce + v * kLanes);
      for (int h = 0; h < kHeads; ++h) {
        const F query_scale = RowVec::Set(queries.scale[at + h * queries.num_blocks]);
        const F sum = RowVec::Mul(IndexVec::DotSum(sums[h][v]), key_scale);
        totals[h][v] = RowVec::Fma(sum, query_scale, totals[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    const F weight = RowVec::Set(weights[h]);
    for (int v = 0; v < kIndexVecs; ++v) {
      // Max gives the dot product where it is NaN.
      scores[v] = RowVec::Fma(RowVec::Max(RowVec::Zero(), totals[h][v]), weight, scores[v]);
    }
  }
}

template <int kHeads>
void AddHeads(const IndexQueries& queries, const IndexKeys& keys, int64_t head, int64_t num_heads,
              const float* weights, F* scores) {
  if (num_heads < kHeads) {
    if constexpr (kHeads > 1) AddHeads<kHeads - 1>(queries, keys, head, num_heads, weights, scores);
    return;
  }
  ScoreTile<kHeads>(queries, keys, head, weights, scores);
}

void IndexScores(const IndexScoreArgs& args) {
  const int64_t width = args.layout.width;
  DSV4_CHECK(width <= kMaxIndexWidth, "index width {}", width);
  IndexQueries queries;
  queries.width = width;
  queries.num_blocks = width / kIndexBlock;
  IndexKeys keys;
  const int64_t heads_at_once = kQueryBytes / width;
  for (int64_t first = 0; first < args.num_heads; first += heads_at_once) {
    const int64_t left = args.num_heads - first;
    const int64_t num_heads = left < heads_at_once ? left : heads_at_once;
    DecodeQueries(args, first, num_heads, &queries);
    for (int64_t key = args.begin; key < args.end; key += kKeysAtOnce) {
      const int64_t n = args.end - key < kKeysAtOnce ? args.end - key : kKeysAtOnce;
      DecodeKeys(args, key, n, &keys);
      float* const out = args.scores + (key - args.begin);
      float sums[kKeysAtOnce] = {};
      if (first > 0) std::memcpy(sums, out, static_cast<size_t>(n) * sizeof(float));
      F scores[kIndexVecs];
      for (int v = 0; v < kIndexVecs; ++v) scores[v] = RowVec::Load(sums + v * kLanes);
      for (int64_t head = 0; head < num_heads; head += RowVec::kIndexHeads) {
        AddHeads<RowVec::kIndexHeads>(queries, keys, head, num_heads - head,
                                      args.weights + first + head, scores);
      }
      for (int v = 0; v < kIndexVecs; ++v) RowVec::Store(scores[v], sums + v * kLanes);
      std::memcpy(out, sums, static_cast<size_t>(n) * sizeof(float));
    }
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
