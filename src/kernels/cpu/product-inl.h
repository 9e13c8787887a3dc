// The walk of a product over its operands. Include it inside a target region, after weights-inl.h.
//
// Two forms with the same bits (weights-inl.h): few activation rows take four weight rows at once,
// straight from the file; more rows decode weights into a panel first and use it for all of them.
//
// A Path says what the numbers are:
//   kElementBytes                   of an element of x and of the panel
//   kFolds                          whether Fold may put scales into x
//   Fold(w, row, x, begin, end, out)  x times the scales of a weight row; false if not exact
//   AddFourRows<kFolded, kRows>(w, rows, x, columns, lanes, watch)   kRows activation rows against
//                                   four weight rows; lanes of a row stand kSegmentLanes behind
//                                   those of the last
//   kPanelColumns, kPanelRowBytes   a chunk of columns of the panel, and its bytes per weight row
//   DecodeRow(w, row, begin, end, rounds, out, watch)   weights as the panel has them
//   Tile<kRows>(x, panel, columns, lanes)   kRows activation rows against four rows of the panel
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int64_t kLanes = Vec::kLanes;
constexpr int64_t kLaneBytes = kLanes * 4;
constexpr int64_t kFour = 4;           // weight rows of a tile
constexpr int64_t kPanelRows = 12;     // weight rows decoded at a time: the panel stays in L1
constexpr int64_t kBandRows = 48;      // weight rows that share a pass over the activations
constexpr int64_t kBatch = 132;        // activation rows of that pass: their chunk stays in L2
constexpr int64_t kFoldBytes = 65536;  // of x that scales are folded into at once
constexpr int64_t kSegment = 128;      // weight rows that may share the folding
constexpr int64_t kSegmentLanes = kSegment * kLanes;
constexpr int64_t kFewRows =
    2 * Vec::kDirectRows;  // activation rows up to which a panel does not pay
constexpr int64_t kPrefetchBytes = 2048;
static_assert(kPanelRows % kFour == 0 && kBandRows % kPanelRows == 0);

// Rows of activations; the columns behind the last are zeros up to a whole group.
struct Rows {
  const std::byte* data;
  int64_t stride;  // bytes

  Rows From(int64_t offset) const { return {data + offset, stride}; }
};

// Columns [begin, end) of `cols`.
struct Columns {
  int64_t begin;
  int64_t end;
  int64_t cols;
};

// The weight rows first, first + step, … of a tile, and their lanes as far apart; step 0 takes one
// row four times. Rows far apart are four streams of memory, which are read faster than one.
struct FourRows {
  int64_t first;
  int64_t step;

  DSV4_INLINE int64_t Row(int64_t r) const { return first + r * step; }
};

// All ones in the lanes that are infinite or NaN.
DSV4_INLINE __m128i NotFinite(__m128 x) {
  const __m128i magnitude = _mm_and_si128(_mm_castps_si128(x), _mm_set1_epi32(0x7FFFFFFF));
  return _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x7F7FFFFF));
}

// The bits of ToBf16 in each lane.
DSV4_INLINE __m128i Bf16Bits(__m128 x) {
  const __m128i bits = _mm_castps_si128(x);
  const __m128i upper = _mm_srli_epi32(bits, 16);
  const __m128i odd = _mm_and_si128(upper, _mm_set1_epi32(1));
  const __m128i sum = _mm_add_epi32(bits, _mm_add_epi32(odd, _mm_set1_epi32(0x7FFF)));
  const __m128i quiet = _mm_or_si128(upper, _mm_set1_epi32(0x40));
  const __m128i is_nan = _mm_castps_si128(_mm_cmpunord_ps(x, x));
  return _mm_blendv_epi8(_mm_srli_epi32(sum, 16), quiet, is_nan);
}

// The first `count` of four outputs, from element `at` on.
DSV4_INLINE void StoreOutputs(__m128 x, int64_t count, OutputType type, void* output, int64_t at) {
  auto* const out = static_cast<std::byte*>(output);
  if (type == OutputType::kF32) {
    std::memcpy(out + at * 4, &x, static_cast<size_t>(count) * 4);
    return;
  }
  const __m128i words = _mm_packus_epi32(Bf16Bits(x), _mm_setzero_si128());
  std::memcpy(out + at * 2, &words, static_cast<size_t>(count) * 2);
}

// The running lanes of kRows activation rows against four weight rows.
template <int kRows>
struct FewSums {
  Vec::F acc[kRows][kFour];

  // `step`: weight rows between those of the four, as their lanes stand.
  DSV4_INLINE FewSums(const float* lanes, int64_t step) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) {
        acc[r][i] = Vec::Load(lanes + r * kSegmentLanes + i * step * kLanes);
      }
    }
  }
  DSV4_INLINE void Store(float* lanes, int64_t step) const {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) {
        Vec::Store(acc[r][i], lanes + r * kSegmentLanes + i * step * kLanes);
      }
    }
  }
  // A group of weight row i, the activations as fp32.
  DSV4_INLINE void AddGroup(int i, const Vec::Four& w, Rows x) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        acc[r][i] = Vec::Fma(Vec::Load(x.data + r * x.stride + v * kLaneBytes), w.v[v], acc[r][i]);
      }
    }
  }
};

// A tile of elements that are multiplied vector by vector: Path has Register, Load and
// Dot(a, b, acc). The lanes of an activation row stand kBandRows * kLanes behind those of the last.
// Never part of its caller, whose vectors would cost it registers.
template <class Path, int kRows>
__attribute__((noinline)) void DotTile(Rows x, const std::byte* panel, Columns columns,
                                       float* lanes) {
  const int64_t bytes = RoundUp(columns.end - columns.begin, kGroup) * Path::kElementBytes;
  Vec::F acc[kRows][kFour];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kFour; ++i) {
      acc[r][i] = Vec::Load(lanes + (r * kBandRows + i) * kLanes);
    }
  }
  for (int64_t at = 0; at < bytes; at += kLaneBytes) {
    typename Path::Register values[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      values[r] = Path::Load(x.data + r * x.stride + at);
      // In a register: read again for each of four products, loads would be the limit.
      if (r < Vec::kHeldRows) __asm__("" : "+v"(values[r]));
    }
#pragma GCC unroll 4
    for (int i = 0; i < kFour; ++i) {
      typename Path::Register w = Path::Load(panel + i * Path::kPanelRowBytes + at);
      __asm__("" : "+v"(w));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc[r][i] = Path::Dot(values[r], w, acc[r][i]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kFour; ++i) {
      Vec::Store(acc[r][i], lanes + (r * kBandRows + i) * kLanes);
    }
  }
}

// Has what lies ahead in weight rows read from memory while tiles are computed: the same bytes of
// each row, some lines at a call.
class Ahead {
 public:
  DSV4_INLINE Ahead(const WeightView& w, int64_t row, int64_t num_rows, Columns columns,
                    int64_t calls)
      : stride_(w.row_bytes()) {
    const int64_t first = columns.begin * stride_ / columns.cols;
    line_ = w.data + row * stride_ + first;
    end_ = row < w.rows ? w.data + Smaller(row + num_rows, w.rows) * stride_ : line_;
    row_lines_ = ((columns.end - columns.begin) * stride_ / columns.cols + kLine - 1) / kLine;
    lines_left_ = row_lines_;
    lines_a_call_ = (row_lines_ * num_rows + calls - 1) / calls;
  }

  DSV4_INLINE void Fetch() {
    for (int64_t i = 0; i < lines_a_call_ && line_ < end_; ++i) {
      __builtin_prefetch(line_);
      line_ += kLine;
      if (--lines_left_ > 0) continue;
      line_ += stride_ - row_lines_ * kLine;
      lines_left_ = row_lines_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;

  const std::byte* line_;
  const std::byte* end_;
  int64_t stride_;
  int64_t row_lines_;
  int64_t lines_left_;  // of the row
  int64_t lines_a_call_;
};

template <class Path>
class Walk {
 public:
  Walk(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows)
      : args_(args), w_(*args.weight), x_(x), first_row_(first_row), num_rows_(num_rows) {}

  void FewRows(int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end;) {
      int64_t stop = Smaller(end, n + kSegment);
      if (Path::kFolds) stop = Smaller(stop, (n / w_.block_rows + 1) * w_.block_rows);
      for (int64_t row = 0; row < num_rows_; row += Vec::kDirectRows) {
        SegmentOf(Smaller(num_rows_ - row, Vec::kDirectRows), row, n, stop);
      }
      n = stop;
    }
  }

  void ManyRows(int64_t begin, int64_t end) {
    for (int64_t row = 0; row < num_rows_; row += kBatch) {
      for (int64_t n = begin; n < end; n += kBandRows) {
        Band(row, Smaller(kBatch, num_rows_ - row), n, Smaller(end, n + kBandRows));
      }
    }
  }

  Doubts GetDoubts() const {
    return {.nan_code = Vec::SawNan(watch_), .not_finite = _mm_movemask_epi8(not_finite_) != 0};
  }

 private:
  static constexpr int64_t kElementBytes = Path::kElementBytes;
  static constexpr int64_t kChunk = Path::kPanelColumns;
  static constexpr int64_t kFoldChunk = kFoldBytes / kElementBytes;

  const std::byte* X(int64_t row, int64_t k) const {
    return x_.data + row * x_.stride + k * kElementBytes;
  }

  void SegmentOf(int64_t rows, int64_t row, int64_t begin, int64_t end) {
    switch (rows) {
      case 1:
        return Segment<1>(row, begin, end);
      case 2:
        return Segment<2>(row, begin, end);
      case 3:
        return Segment<Smaller(3, Vec::kDirectRows)>(row, begin, end);
      default:
        return Segment<Vec::kDirectRows>(row, begin, end);
    }
  }

  // kRows activation rows against weight rows [begin, end).
  template <int kRows>
  void Segment(int64_t row, int64_t begin, int64_t end) {
    alignas(64) float lanes[kRows * kSegmentLanes];
    alignas(64) std::byte folded[Path::kFolds ? kRows * kFoldBytes : 1];
    const int64_t count = RoundUp(end - begin, kFour);
    for (int64_t r = 0; r < kRows; ++r) {
      float* const row_lanes = lanes + r * kSegmentLanes;
      for (int64_t i = 0; i < count; ++i) Vec::Store(Vec::Zero(), row_lanes + i * kLanes);
    }
    // Whole rows, where possible: a row that is left and come back to is read slower.
    const int64_t chunk = Path::kFolds ? kFoldChunk : w_.cols;
    for (int64_t k = 0; k < w_.cols; k += chunk) {
      const Columns columns{k, Smaller(w_.cols, k + chunk), w_.cols};
      const Rows x{X(row, k), x_.stride};
      if (Path::kFolds && end - begin >= kFour && Fold<kRows>(begin, x, columns, folded)) {
        AddRows<Path::kFolds, kRows>({folded, kFoldBytes}, begin, end, columns, lanes);
      } else {
        AddRows<false, kRows>(x, begin, end, columns, lanes);
      }
    }
    for (int64_t r = 0; r < kRows; ++r) Finish(row + r, begin, end, lanes + r * kSegmentLanes);
  }

  template <int kRows>
  bool Fold(int64_t weight_row, Rows x, Columns columns, std::byte* folded) const {
    for (int64_t r = 0; r < kRows; ++r) {
      if constexpr (Path::kFolds) {
        if (!Path::Fold(w_, weight_row, x.data + r * x.stride, columns.begin, columns.end,
                        folded + r * kFoldBytes)) {
          return false;
        }
      }
    }
    return true;
  }

  // The outputs of an activation row at weight rows [begin, end); lanes of a multiple of four.
  void Finish(int64_t row, int64_t begin, int64_t end, const float* lanes) {
    const int64_t at = (first_row_ + row) * args_.output_stride - args_.begin;
    for (int64_t n = begin; n < end; n += kFour, lanes += kFour * kLanes) {
      const __m128 sums = Vec::SumFour(lanes);
      not_finite_ = _mm_or_si128(not_finite_, NotFinite(sums));
      StoreOutputs(sums, Smaller(kFour, end - n), args_.output_type, args_.output, at + n);
    }
  }

  template <bool kFolded, int kRows>
  void AddRows(Rows x, int64_t begin, int64_t end, Columns columns, float* lanes) {
    const int64_t quarter = (end - begin) / kFour;
    for (int64_t n = 0; n < quarter; ++n) {
      Path::template AddFourRows<kFolded, kRows>(w_, {begin + n, quarter}, x, columns,
                                                 lanes + n * kLanes, &watch_);
    }
    for (int64_t n = begin + quarter * kFour; n < end; ++n) {
      Path::template AddFourRows<kFolded, kRows>(w_, {n, 0}, x, columns,
                                                 lanes + (n - begin) * kLanes, &watch_);
    }
  }

  // Activation rows [row, row + rows) against weight rows [begin, end).
  void Band(int64_t row, int64_t rows, int64_t begin, int64_t end) {
    alignas(64) float lanes[kBatch * kBandRows * kLanes];
    for (int64_t i = 0; i < rows * kBandRows; ++i) Vec::Store(Vec::Zero(), lanes + i * kLanes);
    for (int64_t k = 0; k < w_.cols; k += kChunk) {
      for (int64_t n = begin; n < end; n += kPanelRows) {
        Panel(row, rows, n, Smaller(end, n + kPanelRows), k, lanes + (n - begin) * kLanes);
      }
    }
    for (int64_t r = 0; r < rows; ++r) Finish(row + r, begin, end, lanes + r * kBandRows * kLanes);
  }

  // The chunk of columns from k on of weight rows [begin, end).
  void Panel(int64_t row, int64_t rows, int64_t begin, int64_t end, int64_t k, float* lanes) {
    alignas(64) std::byte panel[kPanelRows * Path::kPanelRowBytes];
    const bool rounds =
        args_.activation == Activation::kPlain && w_.scale_format == ScaleFormat::kF32;
    const int64_t stop = Smaller(w_.cols, k + kChunk);
    const int64_t count = RoundUp(end - begin, kFour);
    for (int64_t i = 0; i < count; ++i) {
      Path::DecodeRow(w_, Smaller(begin + i, end - 1), k, stop, rounds,
                      panel + i * Path::kPanelRowBytes, &watch_);
    }
    const Columns columns{k, stop, w_.cols};
    // Tiles of nearly the same height.
    const int64_t tiles = (rows + Vec::kTileRows - 1) / Vec::kTileRows;
    const int64_t height = (rows + tiles - 1) / tiles;
    // The band comes to the next columns of these rows, or to the same rows of the next band.
    const bool is_last = stop == w_.cols;
    const Columns next{is_last ? 0 : stop, Smaller(w_.cols, is_last ? kChunk : stop + kChunk),
                       w_.cols};
    Ahead ahead(w_, begin + (is_last ? kBandRows : 0), end - begin, next, tiles * count / kFour);
    for (int64_t r = 0; r < rows; r += height) {
      for (int64_t i = 0; i < count; i += kFour) {
        ahead.Fetch();
        TileOf(Smaller(rows - r, height), {X(row + r, k), x_.stride},
               panel + i * Path::kPanelRowBytes, columns, lanes + (r * kBandRows + i) * kLanes);
      }
    }
  }

  static void TileOf(int64_t rows, Rows x, const std::byte* panel, Columns columns, float* lanes) {
    switch (rows) {
      case 1:
        return Path::template Tile<1>(x, panel, columns, lanes);
      case 2:
        return Path::template Tile<2>(x, panel, columns, lanes);
      case 3:
        return Path::template Tile<3>(x, panel, columns, lanes);
      case 4:
        return Path::template Tile<Smaller(4, Vec::kTileRows)>(x, panel, columns, lanes);
      case 5:
        return Path::template Tile<Smaller(5, Vec::kTileRows)>(x, panel, columns, lanes);
      default:
        return Path::template Tile<Vec::kTileRows>(x, panel, columns, lanes);
    }
  }

  const ProductArgs& args_;
  const WeightView& w_;
  const Rows x_;
  const int64_t first_row_;  // of the output
  const int64_t num_rows_;
  Vec::Watch watch_ = Vec::NoNan();
  __m128i not_finite_ = _mm_setzero_si128();
};

// Rows [first_row, first_row + num_rows) of the output.
template <class Path>
Doubts RunPath(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows) {
  Walk<Path> walk(args, x, first_row, num_rows);
  // Only the panel's decoding rounds a weight after its scale.
  const bool rounds =
      args.activation == Activation::kPlain && args.weight->scale_format == ScaleFormat::kF32;
  if (num_rows <= kFewRows && !rounds) {
    walk.FewRows(args.begin, args.end);
  } else {
    walk.ManyRows(args.begin, args.end);
  }
  return walk.GetDoubts();
}

// Computes the weight rows again whose scales are too near the ends of the number range.
inline void MendScales(const ProductArgs& args, int64_t row_bytes, PreparedValue value) {
  const WeightView& w = *args.weight;
  if (ScalesFit(w, args.begin, args.end)) return;
  for (int64_t n = args.begin; n < args.end; ++n) {
    if (!ScalesFit(w, n, n + 1)) CarefulRow(args, n, row_bytes, value);
  }
}

// Calls PathOf<format, scale format> for the weight's.
template <template <WeightFormat, ScaleFormat> class PathOf, WeightFormat kFormat>
Doubts RunScaled(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows) {
  switch (args.weight->scale_format) {
    case ScaleFormat::kNone:
      break;
    case ScaleFormat::kE8m0:
      return RunPath<PathOf<kFormat, ScaleFormat::kE8m0>>(args, x, first_row, num_rows);
    case ScaleFormat::kF32:
      return RunPath<PathOf<kFormat, ScaleFormat::kF32>>(args, x, first_row, num_rows);
  }
  return RunPath<PathOf<kFormat, ScaleFormat::kNone>>(args, x, first_row, num_rows);
}

}  // namespace
}  // namespace dsv4::kernels::cpu
