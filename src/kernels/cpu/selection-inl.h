// The indexer's choice and the compressor's pooling.
// Include it inside a target region, after row_loops-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int kTopVecs = 4;
constexpr int64_t kStep = kTopVecs * kLanes;

// Appends the indices of [i, i + kStep) with a score above the bar; returns the new count.
DSV4_INLINE int64_t AppendAbove(const float* scores, int64_t i, F bar, int32_t* indices,
                                int64_t count) {
  int above[kTopVecs];
  int any = 0;
  for (int v = 0; v < kTopVecs; ++v) {
    any |= above[v] = RowVec::Greater(RowVec::Load(scores + i + v * kLanes), bar);
  }
  if (any == 0) return count;
  for (int v = 0; v < kTopVecs; ++v) {
    for (auto bits = static_cast<unsigned>(above[v]); bits != 0; bits &= bits - 1) {
      indices[count++] = static_cast<int32_t>(i + v * kLanes + __builtin_ctz(bits));
    }
  }
  return count;
}

// Indices whose score can still be among the k best are gathered; when there is no more room, the
// k best of them stay, and the worst of those is the bar for all that follow: later ones lose ties.
void TopK(const float* scores, int64_t n, int64_t k, int32_t* indices, int32_t* scratch) {
  if (k > n) k = n;
  if (k <= 0) return;
  const int64_t room = n < 4 * k + 1024 ? n : 4 * k + 1024;
  for (int32_t i = 0; i < room; ++i) scratch[i] = i;
  int64_t count = room;
  int64_t i = room;
  float bar = k < count ? KeepBest(scores, scratch, count, k) : 0.0f;
  count = k;
  for (; i < n; i += kStep) {
    if (room - count < kStep) {
      bar = KeepBest(scores, scratch, count, k);
      count = k;
    }
    if (n - i < kStep) {
      for (; i < n; ++i) {
        if (scores[i] > bar) scratch[count++] = static_cast<int32_t>(i);
      }
      break;
    }
    count = AppendAbove(scores, i, RowVec::Set(bar), scratch, count);
  }
  if (k < count) KeepBest(scores, scratch, count, k);
  SortIndices(scratch, k);
  std::memcpy(indices, scratch, static_cast<size_t>(k) * sizeof(int32_t));
}

void Pool(const PoolArgs& args) {
  for (int64_t c = 0; c < args.width; c += kLanes) {
    const int64_t n = LanesLeft(c, args.width);
    F max = RowVec::Set(-__builtin_inff());
    for (int32_t r = 0; r < args.num_rows; ++r) {
      max = RowVec::Max(LoadRow(args.score[r] + c, n), max);  // NaN counts for nothing
    }
    F sum = RowVec::Zero();
    F value = RowVec::Zero();
    for (int32_t r = 0; r < args.num_rows; ++r) {
      const F p = Exp(RowVec::Sub(LoadRow(args.score[r] + c, n), max));
      sum = RowVec::Add(sum, p);
      value = RowVec::Add(value, RowVec::Mul(p, LoadRow(args.kv[r] + c, n)));
    }
    StoreRow(RowVec::Div(value, sum), args.output + c, n);
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
