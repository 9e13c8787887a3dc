// The walk of a product over its operands. Include it inside a target region, after weights-inl.h.
//
// Two forms with the same bits (weights-inl.h): one activation row reads four weight rows at once,
// straight from the file; more rows decode weights into a panel first and use it for all of them.
//
// A Path says what the numbers are:
//   kElementBytes                   of an element of x and of the panel
//   kFolds                          whether Fold may put scales into x
//   Fold(w, row, x, begin, end, out)  x times the scales of a weight row; false if not exact
//   AddFourRows<kFolded>(…)         one activation row against four weight rows
//   DecodeRow(w, row, begin, end, rounds, out, watch)   weights as the panel has them
//   Register, Load, Dot(a, b, acc)  a step of a tile
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr int64_t kLanes = Vec::kLanes;
constexpr int64_t kLaneBytes = kLanes * 4;
constexpr int64_t kFour = 4;              // weight rows of a tile
constexpr int64_t kPanelRowBytes = 2048;  // a chunk of columns
constexpr int64_t kPanelRows = 12;        // weight rows decoded at a time: the panel stays in L1
constexpr int64_t kBandRows = 48;         // weight rows that share a pass over the activations
constexpr int64_t kBatch = 132;           // activation rows of that pass: their chunk stays in L2
constexpr int64_t kFoldBytes = 16384;     // of x that scales are folded into at once
constexpr int64_t kSegment = 128;         // weight rows that may share the folding
constexpr int64_t kPrefetchBytes = 1024;
static_assert(kPanelRows % kFour == 0 && kBandRows % kPanelRows == 0);

// Rows of activations; the columns behind the last are zeros up to a whole group.
struct Rows {
  const std::byte* data;
  int64_t stride;  // bytes
};

// Rows [first, first + 4) of a weight; those from `end` on are the last one again.
template <WeightFormat kFormat>
struct FourRowsOf {
  const std::byte* data[kFour];
  int64_t row[kFour];

  DSV4_INLINE FourRowsOf(const WeightView& w, int64_t first, int64_t end) {
    for (int64_t r = 0; r < kFour; ++r) {
      row[r] = Smaller(first + r, end - 1);
      data[r] = w.data + row[r] * WeightBytes<kFormat>(w.cols);
    }
  }
};

template <class Path>
class Walk {
 public:
  Walk(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows)
      : args_(args), w_(*args.weight), x_(x), first_row_(first_row), num_rows_(num_rows) {}

  void OneRow(int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end;) {
      int64_t stop = Smaller(end, n + kSegment);
      if (Path::kFolds) stop = Smaller(stop, (n / w_.block_rows + 1) * w_.block_rows);
      Segment(n, stop);
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

  bool SawNan() const { return Vec::SawNan(watch_); }

 private:
  static constexpr int64_t kElementBytes = Path::kElementBytes;
  static constexpr int64_t kChunk = kPanelRowBytes / kElementBytes;
  static constexpr int64_t kFoldChunk = kFoldBytes / kElementBytes;

  const std::byte* X(int64_t row, int64_t k) const {
    return x_.data + row * x_.stride + k * kElementBytes;
  }

  void Segment(int64_t begin, int64_t end) {
    alignas(64) float lanes[kSegment * kLanes];
    alignas(64) std::byte folded[Path::kFolds ? kFoldBytes : 1];
    const int64_t count = RoundUp(end - begin, kFour);
    for (int64_t i = 0; i < count; ++i) Vec::Store(Vec::Zero(), lanes + i * kLanes);
    for (int64_t k = 0; k < w_.cols; k += kFoldChunk) {
      const int64_t stop = Smaller(w_.cols, k + kFoldChunk);
      const std::byte* const x = X(0, k);
      if constexpr (Path::kFolds) {
        if (end - begin >= kFour && Path::Fold(w_, begin, x, k, stop, folded)) {
          AddRows<true>(folded, begin, end, k, stop, lanes);
          continue;
        }
      }
      AddRows<false>(x, begin, end, k, stop, lanes);
    }
    for (int64_t n = begin; n < end; ++n) {
      StoreOutput(args_, first_row_, n, Vec::Sum(Vec::Load(lanes + (n - begin) * kLanes)));
    }
  }

  template <bool kFolded>
  void AddRows(const std::byte* x, int64_t begin, int64_t end, int64_t k, int64_t stop,
               float* lanes) {
    for (int64_t n = begin; n < end; n += kFour) {
      Path::template AddFourRows<kFolded>(w_, n, end, x, k, stop, lanes + (n - begin) * kLanes,
                                          &watch_);
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
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = begin; n < end; ++n) {
        const float* const sum = lanes + (r * kBandRows + n - begin) * kLanes;
        StoreOutput(args_, first_row_ + row + r, n, Vec::Sum(Vec::Load(sum)));
      }
    }
  }

  // The chunk of columns from k on of weight rows [begin, end).
  void Panel(int64_t row, int64_t rows, int64_t begin, int64_t end, int64_t k, float* lanes) {
    alignas(64) std::byte panel[kPanelRows * kPanelRowBytes];
    const bool rounds =
        args_.activation == Activation::kPlain && w_.scale_format == ScaleFormat::kF32;
    const int64_t stop = Smaller(w_.cols, k + kChunk);
    const int64_t count = RoundUp(end - begin, kFour);
    for (int64_t i = 0; i < count; ++i) {
      Path::DecodeRow(w_, Smaller(begin + i, end - 1), k, stop, rounds, panel + i * kPanelRowBytes,
                      &watch_);
    }
    const int64_t bytes = RoundUp(stop - k, kGroup) * kElementBytes;
    for (int64_t r = 0; r < rows; r += Vec::kTileRows) {
      for (int64_t i = 0; i < count; i += kFour) {
        TileOf(Smaller(rows - r, Vec::kTileRows), X(row + r, k), panel + i * kPanelRowBytes, bytes,
               lanes + (r * kBandRows + i) * kLanes);
      }
    }
  }

  void TileOf(int64_t rows, const std::byte* x, const std::byte* panel, int64_t bytes,
              float* lanes) const {
    switch (rows) {
      case 1:
        return Tile<1>(x, panel, bytes, lanes);
      case 2:
        return Tile<2>(x, panel, bytes, lanes);
      case 3:
        return Tile<3>(x, panel, bytes, lanes);
      case 4:
        return Tile<Smaller(4, Vec::kTileRows)>(x, panel, bytes, lanes);
      case 5:
        return Tile<Smaller(5, Vec::kTileRows)>(x, panel, bytes, lanes);
      default:
        return Tile<Vec::kTileRows>(x, panel, bytes, lanes);
    }
  }

  // kRows activation rows against four rows of the panel.
  template <int kRows>
  void Tile(const std::byte* x, const std::byte* panel, int64_t bytes, float* lanes) const {
    Vec::F acc[kRows][kFour];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) {
        acc[r][i] = Vec::Load(lanes + (r * kBandRows + i) * kLanes);
      }
    }
    for (int64_t at = 0; at < bytes; at += kLaneBytes) {
      typename Path::Register w[kFour];
#pragma GCC unroll 4
      for (int i = 0; i < kFour; ++i) w[i] = Path::Load(panel + i * kPanelRowBytes + at);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const typename Path::Register value = Path::Load(x + r * x_.stride + at);
#pragma GCC unroll 4
        for (int i = 0; i < kFour; ++i) acc[r][i] = Path::Dot(value, w[i], acc[r][i]);
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

  const ProductArgs& args_;
  const WeightView& w_;
  const Rows x_;
  const int64_t first_row_;  // of the output
  const int64_t num_rows_;
  Vec::Watch watch_ = Vec::NoNan();
};

// Rows [first_row, first_row + num_rows) of the output. True where a NaN code was seen.
template <class Path>
bool RunPath(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows) {
  Walk<Path> walk(args, x, first_row, num_rows);
  // Only the panel's decoding rounds a weight after its scale.
  const bool rounds = args.activation == Activation::kPlain &&
                      args.weight->scale_format == ScaleFormat::kF32;
  if (num_rows == 1 && !rounds) {
    walk.OneRow(args.begin, args.end);
  } else {
    walk.ManyRows(args.begin, args.end);
  }
  return walk.SawNan();
}

// Calls PathOf<format, scale format> for the weight's.
template <template <WeightFormat, ScaleFormat> class PathOf, WeightFormat kFormat>
bool RunScaled(const ProductArgs& args, Rows x, int64_t first_row, int64_t num_rows) {
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
