// Quantisation of activations and of cache rows: the bits of kernels/ref/quant.cc.
// Include it inside a target region, after row_loops-inl.h and e4m3-inl.h.
#pragma once

namespace dsv4::kernels::cpu {
namespace {

constexpr float kMinAmaxE2m1 = 0x1.8p-124f;  // 6 * 2^-126

// NaN counts for nothing.
DSV4_INLINE float MaxMagnitude(const Bf16* x, int64_t n, float at_least) {
  F amax = RowVec::Set(at_least);
  for (int64_t i = 0; i < n; i += kLanes) {
    amax = RowVec::Max(RowVec::Abs(LoadRow(x + i, LanesLeft(i, n))), amax);
  }
  return RowVec::MaxLane(amax);
}

DSV4_INLINE float BlockScale(const Bf16* x, int64_t n, ActScale scale) {
  return ref::ScaleOfAmax(MaxMagnitude(x, n, ref::kE4m3MinAmax), scale);
}

// Codes of one block of n values.
DSV4_INLINE void StoreBlockCodes(const Bf16* x, int64_t n, float scale, uint8_t* codes) {
  const F divisor = RowVec::Set(scale);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = LanesLeft(i, n);
    const F scaled = RowVec::Div(LoadRow(x + i, left), divisor);
    RowVec::StoreE4m3Codes(RoundToE4m3<RowVec>(scaled), codes + i, left);
  }
}

// bf16(value of code * scale) of one block; y may be x.
DSV4_INLINE void StoreBlockValues(const Bf16* x, int64_t n, float scale, Bf16* y) {
  const F factor = RowVec::Set(scale);
  const F nan = RowVec::Set(__builtin_nanf(""));
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = LanesLeft(i, n);
    const F rounded = RoundToE4m3<RowVec>(RowVec::Div(LoadRow(x + i, left), factor));
    StoreRow(RowVec::Mul(RowVec::IfNan(rounded, nan, rounded), factor), y + i, left);
  }
}

void ActQuant(const Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale,
              uint8_t* codes, float* scales) {
  for (int64_t row = 0; row < num_rows; ++row, x += cols, codes += cols) {
    for (int64_t begin = 0; begin < cols; begin += block) {
      const int64_t n = cols - begin < block ? cols - begin : block;
      *scales = BlockScale(x + begin, n, scale);
      StoreBlockCodes(x + begin, n, *scales++, codes + begin);
    }
  }
}

void ActQuantInPlace(Bf16* x, int64_t num_rows, int64_t cols, int32_t block, ActScale scale) {
  for (int64_t row = 0; row < num_rows; ++row, x += cols) {
    for (int64_t begin = 0; begin < cols; begin += block) {
      const int64_t n = cols - begin < block ? cols - begin : block;
      StoreBlockValues(x + begin, n, BlockScale(x + begin, n, scale), x + begin);
    }
  }
}

void PackIndexRows(const Bf16* x, int64_t num_rows, IndexRowLayout layout, std::byte* packed) {
  constexpr int32_t kBlock = IndexRowLayout::kBlock;
  for (int64_t row = 0; row < num_rows; ++row, x += layout.width, packed += layout.row_bytes()) {
    for (int32_t begin = 0; begin < layout.width; begin += kBlock) {
      const float scale =
          Pow2Ceil(MaxMagnitude(x + begin, kBlock, kMinAmaxE2m1) * (1.0f / kE2m1Max));
      for (int32_t i = begin; i < begin + kBlock; i += kLanes) {
        const F value = RowVec::LoadBf16(x + i);
        RowVec::StoreE2m1Codes(RowVec::Div(value, RowVec::Set(scale)), packed + i / 2);
      }
      packed[layout.scale_offset() + begin / kBlock] = static_cast<std::byte>(EncodeE8m0(scale));
    }
  }
}

void UnpackIndexRows(const std::byte* packed, int64_t num_rows, IndexRowLayout layout, Bf16* x) {
  constexpr int32_t kBlock = IndexRowLayout::kBlock;
  for (int64_t row = 0; row < num_rows; ++row, x += layout.width, packed += layout.row_bytes()) {
    for (int32_t i = 0; i < layout.width; i += kLanes) {
      const float scale =
          DecodeE8m0(static_cast<uint8_t>(packed[layout.scale_offset() + i / kBlock]));
      RowVec::StoreBf16(RowVec::Mul(RowVec::LoadE2m1(packed + i / 2), RowVec::Set(scale)), x + i);
    }
  }
}

void PackKvRows(const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed) {
  constexpr int32_t kBlock = KvRowLayout::kBlock;
  for (int64_t row = 0; row < num_rows; ++row, x += layout.width, packed += layout.row_bytes()) {
    for (int32_t begin = 0; begin < layout.num_codes(); begin += kBlock) {
      const float scale = BlockScale(x + begin, kBlock, ActScale::kPowerOfTwo);
      if (layout.packed) {
        StoreBlockCodes(x + begin, kBlock, scale, reinterpret_cast<uint8_t*>(packed) + begin);
        packed[layout.scale_offset() + begin / kBlock] = static_cast<std::byte>(EncodeE8m0(scale));
      } else {
        Bf16 values[kBlock];
        StoreBlockValues(x + begin, kBlock, scale, values);
        std::memcpy(packed + begin * 2, values, sizeof(values));
      }
    }
    std::memcpy(packed + layout.rope_offset() * (layout.packed ? 1 : 2), x + layout.rope_offset(),
                static_cast<size_t>(layout.rope_width) * sizeof(Bf16));
    if (layout.packed) {
      const int64_t end = layout.scale_offset() + layout.num_codes() / kBlock;
      std::memset(packed + end, 0, static_cast<size_t>(layout.row_bytes() - end));
    }
  }
}

// Vectors of kLanes values of one stored row, in order; `visit(column, n, values)`. Columns beyond
// the width come as zeros.
template <class Visit>
DSV4_INLINE void ForEachStored(const std::byte* packed, KvRowLayout layout, Visit visit) {
  int64_t begin = 0;
  if (layout.packed) {
    for (; begin < layout.num_codes(); begin += kLanes) {
      const std::byte scale = packed[layout.scale_offset() + begin / KvRowLayout::kBlock];
      const F factor = RowVec::Set(DecodeE8m0(static_cast<uint8_t>(scale)));
      visit(begin, kLanes, RowVec::Mul(RowVec::LoadE4m3(packed + begin), factor));
    }
    packed += begin;
  }
  for (const std::byte* p = packed; begin < layout.width; begin += kLanes, p += kLanes * 2) {
    const int64_t n = LanesLeft(begin, layout.width);
    visit(begin, n, n == kLanes ? RowVec::LoadBf16(p) : RowVec::LoadBf16Part(p, n));
  }
}

struct StoreAsBf16 {
  Bf16* x;
  DSV4_INLINE void operator()(int64_t begin, int64_t n, F values) const {
    StoreRow(values, x + begin, n);
  }
};

void UnpackKvRows(const std::byte* packed, int64_t num_rows, KvRowLayout layout, Bf16* x) {
  for (int64_t row = 0; row < num_rows; ++row, x += layout.width, packed += layout.row_bytes()) {
    if (layout.packed) {
      ForEachStored(packed, layout, StoreAsBf16{x});
      // As they are: storing as bf16 would quiet a NaN.
      std::memcpy(x + layout.rope_offset(), packed + layout.rope_offset(),
                  static_cast<size_t>(layout.rope_width) * sizeof(Bf16));
    } else {
      std::memcpy(x, packed, static_cast<size_t>(layout.row_bytes()));
    }
  }
}

}  // namespace
}  // namespace dsv4::kernels::cpu
