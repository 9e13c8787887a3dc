// Sparse attention: kernels/ref/attention.cc with sums in vector lanes. A tile of 64 rows is
// decoded once for all heads; dot products run over tiles of heads by four rows, weighted sums over
// tiles of heads by a few vectors of columns. No tile mixes heads or rows, so a head has the same
// bits in any company. Include it inside a target region, after quant-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int64_t kTileRows = 64;
constexpr int64_t kRowsAtOnce = 4;
constexpr int64_t kValueColumns = RowVec::kValueVecs * kLanes;

// The caller's scratch, cut up. Rows of `columns` floats: the width and zeros.
struct AttentionScratch {
  float* rows;        // [kTileRows, stride]: a stride that is no multiple of a page
  float* q;           // [num_heads, columns]
  float* values;      // [num_heads, columns]: sums of p * v relative to the running maximum
  float* p;           // [num_heads, kTileRows]
  float* max;         // [num_heads]
  float* sum;         // [num_heads]: of the unrounded probabilities
  float* correction;  // [num_heads]: of sum and values, from the old maximum to the new one
  int64_t columns;
  int64_t stride;
};

constexpr int64_t kScratchAlignment = 64;

DSV4_INLINE AttentionScratch Cut(std::byte* scratch, int64_t num_heads, int64_t width) {
  const auto misaligned = reinterpret_cast<uintptr_t>(scratch) % kScratchAlignment;
  AttentionScratch s;
  s.columns = RoundUpTo(width, kValueColumns);
  s.stride = s.columns + 16;
  s.rows = reinterpret_cast<float*>(scratch + (kScratchAlignment - misaligned) % kScratchAlignment);
  s.q = s.rows + kTileRows * s.stride;
  s.values = s.q + num_heads * s.columns;
  s.p = s.values + num_heads * s.columns;
  s.max = s.p + num_heads * kTileRows;
  s.sum = s.max + num_heads;
  s.correction = s.sum + num_heads;
  return s;
}

int64_t SparseAttentionScratchBytes(int32_t num_heads, KvRowLayout layout) {
  const int64_t columns = RoundUpTo(layout.width, kValueColumns);
  const int64_t floats = kTileRows * (columns + 16) + num_heads * (2 * columns + kTileRows + 3);
  return floats * static_cast<int64_t>(sizeof(float)) + kScratchAlignment;
}

DSV4_INLINE void FillZero(float* begin, float* end) {
  for (float* p = begin; p < end; p += kLanes) RowVec::Store(RowVec::Zero(), p);
}

struct StoreAsFloat {
  float* x;
  DSV4_INLINE void operator()(int64_t begin, int64_t, F values) const {
    RowVec::Store(values, x + begin);
  }
};

// Rows [begin, begin + n) of the call, and rows of zeros up to a multiple of kRowsAtOnce.
void DecodeTile(const SparseAttentionArgs& args, const AttentionScratch& s, int64_t begin,
                int64_t n) {
  constexpr int64_t kAhead = 6;
  for (int64_t j = 0; j < n; ++j) {
    if (begin + j + kAhead < args.num_rows) {
      const std::byte* const ahead = args.rows[begin + j + kAhead];
      for (int64_t i = 0; i < args.layout.row_bytes(); i += 64) __builtin_prefetch(ahead + i);
    }
    float* const row = s.rows + j * s.stride;
    ForEachStored(args.rows[begin + j], args.layout, StoreAsFloat{row});
    FillZero(row + RoundUpTo(args.layout.width, kLanes), row + s.columns);
  }
  for (int64_t j = n; j < RoundUpTo(n, kRowsAtOnce); ++j) {
    FillZero(s.rows + j * s.stride, s.rows + j * s.stride + s.columns);
  }
}

// p[head][row] = q[head] · rows[row] for kHeads heads and kRowsAtOnce rows.
template <int kHeads>
DSV4_INLINE void DotTile(const float* q, const float* rows, int64_t columns, int64_t stride,
                         float* p) {
  F sums[kHeads][kRowsAtOnce];
  for (auto& head : sums) {
    for (F& sum : head) sum = RowVec::Zero();
  }
  for (int64_t c = 0; c < columns; c += kLanes) {
    F query[kHeads];
    for (int h = 0; h < kHeads; ++h) query[h] = RowVec::Load(q + h * columns + c);
    for (int j = 0; j < kRowsAtOnce; ++j) {
      const F key = RowVec::Load(rows + j * stride + c);
      for (int h = 0; h < kHeads; ++h) sums[h][j] = RowVec::Fma(query[h], key, sums[h][j]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    RowVec::StoreSums(sums[h][0], sums[h][1], sums[h][2], sums[h][3], p + h * kTileRows);
  }
}

template <int kHeads>
void Dots(const AttentionScratch& s, int64_t head, int64_t num_heads, int64_t j) {
  if (num_heads < kHeads) {
    if constexpr (kHeads > 1) Dots<kHeads - 1>(s, head, num_heads, j);
    return;
  }
  DotTile<kHeads>(s.q + head * s.columns, s.rows + j * s.stride, s.columns, s.stride,
                  s.p + head * kTileRows + j);
}

// Scores become rounded probabilities; the running maximum and sum are brought up to date.
void Softmax(const AttentionScratch& s, int64_t head, int64_t n, float scale) {
  float* const p = s.p + head * kTileRows;
  const F factor = RowVec::Set(scale);
  for (int64_t j = 0; j < n; j += kLanes) {
    RowVec::Store(RowVec::Mul(RowVec::Load(p + j), factor), p + j);
  }
  for (int64_t j = n; j < RoundUpTo(n, kLanes); ++j) p[j] = -__builtin_inff();
  F max = RowVec::Set(s.max[head]);
  // NaN counts for nothing here and comes through exp.
  for (int64_t j = 0; j < n; j += kLanes) max = RowVec::Max(RowVec::Load(p + j), max);
  max = RowVec::Set(RowVec::MaxLane(max));
  F sum = RowVec::Zero();
  for (int64_t j = 0; j < n; j += kLanes) {
    const F probability = Exp(RowVec::Sub(RowVec::Load(p + j), max));
    sum = RowVec::Add(sum, probability);
    RowVec::Store(RowVec::RoundToBf16Lanes(probability), p + j);
  }
  const float correction = RowVec::MaxLane(Exp(RowVec::Sub(RowVec::Set(s.max[head]), max)));
  s.correction[head] = correction;
  s.sum[head] = s.sum[head] * correction + RowVec::LaneSum(sum);
  s.max[head] = RowVec::MaxLane(max);
}

// values[c] = values[c] * correction + sum_j p[j] * rows[j][c], j ascending, for kHeads heads and
// kValueColumns columns.
template <int kHeads>
DSV4_INLINE void ValueTile(const AttentionScratch& s, int64_t head, int64_t c, int64_t n) {
  constexpr int kVecs = RowVec::kValueVecs;
  F sums[kHeads][kVecs];
  for (int h = 0; h < kHeads; ++h) {
    const F correction = RowVec::Set(s.correction[head + h]);
    for (int v = 0; v < kVecs; ++v) {
      sums[h][v] =
          RowVec::Mul(RowVec::Load(s.values + (head + h) * s.columns + c + v * kLanes), correction);
    }
  }
  const float* p = s.p + head * kTileRows;
  const float* row = s.rows + c;
  for (int64_t j = 0; j < n; ++j, ++p, row += s.stride) {
    F value[kVecs];
    for (int v = 0; v < kVecs; ++v) value[v] = RowVec::Load(row + v * kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const F factor = RowVec::Set(p[h * kTileRows]);
      for (int v = 0; v < kVecs; ++v) sums[h][v] = RowVec::Fma(factor, value[v], sums[h][v]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kVecs; ++v) {
      RowVec::Store(sums[h][v], s.values + (head + h) * s.columns + c + v * kLanes);
    }
  }
}

template <int kHeads>
void AddValues(const AttentionScratch& s, int64_t head, int64_t num_heads, int64_t c, int64_t n) {
  if (num_heads < kHeads) {
    if constexpr (kHeads > 1) AddValues<kHeads - 1>(s, head, num_heads, c, n);
    return;
  }
  ValueTile<kHeads>(s, head, c, n);
}

void AddTile(const SparseAttentionArgs& args, const AttentionScratch& s, int64_t n) {
  const int64_t num_heads = args.num_heads;
  for (int64_t j = 0; j < n; j += kRowsAtOnce) {
    for (int64_t head = 0; head < num_heads; head += RowVec::kHeadTile) {
      Dots<RowVec::kHeadTile>(s, head, num_heads - head, j);
    }
  }
  for (int64_t head = 0; head < num_heads; ++head) Softmax(s, head, n, args.scale);
  for (int64_t c = 0; c < s.columns; c += kValueColumns) {
    for (int64_t head = 0; head < num_heads; head += RowVec::kValueHeads) {
      AddValues<RowVec::kValueHeads>(s, head, num_heads - head, c, n);
    }
  }
}

void SparseAttention(const SparseAttentionArgs& args) {
  const int64_t width = args.layout.width;
  const AttentionScratch s = Cut(args.scratch, args.num_heads, width);
  for (int64_t head = 0; head < args.num_heads; ++head) {
    float* const q = s.q + head * s.columns;
    for (int64_t c = 0; c < width; c += kLanes) {
      RowVec::Store(LoadRow(args.q + head * width + c, LanesLeft(c, width)), q + c);
    }
    FillZero(q + RoundUpTo(width, kLanes), q + s.columns);
    FillZero(s.values + head * s.columns, s.values + (head + 1) * s.columns);
    s.max[head] = -__builtin_inff();
    s.sum[head] = 0.0f;
  }
  for (int64_t begin = 0; begin < args.num_rows; begin += kTileRows) {
    const int64_t left = args.num_rows - begin;
    const int64_t n = left < kTileRows ? left : kTileRows;
    DecodeTile(args, s, begin, n);
    AddTile(args, s, n);
  }
  for (int64_t head = 0; head < args.num_heads; ++head) {
    // A large sink overflows to infinity and the quotient is 0; a sink of -inf adds nothing.
    const float denominator = s.sum[head] + std::exp(args.sink[head] - s.max[head]);
    const F divisor = RowVec::Set(denominator);
    for (int64_t c = 0; c < width; c += kLanes) {
      const F value = RowVec::Load(s.values + head * s.columns + c);
      StoreRow(RowVec::Div(value, divisor), args.output + head * width + c, LanesLeft(c, width));
    }
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
