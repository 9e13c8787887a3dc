// Rules for products and for a whole expert.
#include <algorithm>
#include <cmath>

#include "checkpoint/fp4_to_fp8.h"
#include "numeric/e8m0.h"
#include "tools/ops_golden_file.h"

namespace dsv4::tools {
namespace {

constexpr int32_t kActBlock = 128;

// A weight with its bytes.
struct OwnedWeight {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> e8m0;
  std::vector<float> f32;
  WeightView view;
};

bool IsPowerOfTwo(float value) { return value > 0.0f && Pow2Ceil(value) == value; }

// FP4 where two codes share a byte, else FP8. Scales go to E8M0 where all are powers of two.
OwnedWeight MakeWeight(const Floats& codes, const Floats& scales, bool fp4) {
  OwnedWeight w;
  w.codes = ToIntegers<uint8_t>(codes);
  w.view.format = fp4 ? WeightFormat::kFp4 : WeightFormat::kFp8;
  w.view.rows = codes.shape[0];
  w.view.cols = codes.shape[1] * (fp4 ? 2 : 1);
  w.view.block_rows = fp4 ? 1 : 128;
  w.view.block_cols = fp4 ? 32 : 128;
  w.view.data = reinterpret_cast<const std::byte*>(w.codes.data());
  if (std::ranges::all_of(scales.values, IsPowerOfTwo)) {
    for (const float scale : scales.values) w.e8m0.push_back(EncodeE8m0(scale));
    w.view.scale_format = ScaleFormat::kE8m0;
    w.view.scale = reinterpret_cast<const std::byte*>(w.e8m0.data());
  } else {
    w.f32 = scales.values;
    w.view.scale_format = ScaleFormat::kF32;
    w.view.scale = reinterpret_cast<const std::byte*>(w.f32.data());
  }
  return w;
}

std::vector<Bf16> Linear(const kernels::Kernels& kernels, const std::vector<Bf16>& x,
                         int64_t num_rows, kernels::ActScale scale, const WeightView& weight) {
  using kernels::Activation;
  const int64_t row_bytes =
      kernels.prepared_row_bytes(Activation::kQuantized, weight.cols, kActBlock);
  std::vector<std::byte> prepared(static_cast<size_t>(num_rows * row_bytes));
  kernels.prepare({.x = x.data(),
                   .x_stride = weight.cols,
                   .num_rows = num_rows,
                   .cols = weight.cols,
                   .activation = Activation::kQuantized,
                   .scale = scale,
                   .block = kActBlock,
                   .prepared = prepared.data()});
  std::vector<Bf16> y(static_cast<size_t>(num_rows * weight.rows));
  kernels.product({.prepared = prepared.data(),
                   .num_rows = num_rows,
                   .activation = Activation::kQuantized,
                   .scale = scale,
                   .block = kActBlock,
                   .weight = &weight,
                   .begin = 0,
                   .end = weight.rows,
                   .output_type = kernels::OutputType::kBf16,
                   .output = y.data(),
                   .output_stride = weight.rows});
  return y;
}

}  // namespace

Status CheckGemm(GoldenFile& file) {
  for (const std::string& name : file.Cases()) {
    DSV4_ASSIGN(const Floats x, file.Load(name + ".x"));
    DSV4_ASSIGN(const Floats x_code, file.Load(name + ".x_code"));
    DSV4_ASSIGN(const Floats x_scale, file.Load(name + ".x_scale"));
    DSV4_ASSIGN(const Floats w, file.Load(name + ".w"));
    DSV4_ASSIGN(const Floats w_scale, file.Load(name + ".w_scale"));
    DSV4_ASSIGN(const Floats exact, file.Load(name + ".exact"));
    const OwnedWeight weight = MakeWeight(w, w_scale, name.starts_with("fp4"));
    const auto scale = std::ranges::all_of(x_scale.values, IsPowerOfTwo)
                           ? kernels::ActScale::kPowerOfTwo
                           : kernels::ActScale::kExact;
    const std::vector<Bf16> values = ToBf16s(x);
    std::vector<uint8_t> codes(values.size());
    std::vector<float> scales(x_scale.values.size());
    file.kernels.act_quant(values.data(), x.shape[0], x.shape[1], kActBlock, scale, codes.data(),
                           scales.data());
    const std::vector<Bf16> y = Linear(file.kernels, values, x.shape[0], scale, weight.view);
    file.Note(name + " x_code", test::SameBits(Shaped(codes, x_code), x_code));
    file.Note(name + " x_scale", test::SameBits(Shaped(scales, x_scale), x_scale));
    file.Note(name + " y", test::WithinBf16Steps(Shaped(y, exact), exact, 1.0));
  }
  return {};
}

Status CheckExpert(GoldenFile& file) {
  for (const std::string& name : file.Cases()) {
    const bool fp4 = name.starts_with("fp4");
    DSV4_ASSIGN(const Floats x, file.Load(name + ".x"));
    DSV4_ASSIGN(const Floats weight, file.Load(name + ".weight"));
    DSV4_ASSIGN(const Floats want_h, file.Load(name + ".h"));
    DSV4_ASSIGN(const Floats want_y, file.Load(name + ".y"));
    DSV4_ASSIGN(const double limit, file.Parameter("expert", name, "limit"));
    OwnedWeight w[3];
    for (int i = 0; i < 3; ++i) {
      const std::string tensor = fmt::format("{}.w{}", name, i + 1);
      DSV4_ASSIGN(const Floats codes, file.Load(tensor));
      DSV4_ASSIGN(const Floats scales, file.Load(tensor + "_scale"));
      w[i] = MakeWeight(codes, scales, fp4);
    }
    constexpr auto kScale = kernels::ActScale::kPowerOfTwo;
    const int64_t num_rows = x.shape[0];
    const std::vector<Bf16> values = ToBf16s(x);
    std::vector<Bf16> h = Linear(file.kernels, values, num_rows, kScale, w[0].view);
    const std::vector<Bf16> up = Linear(file.kernels, values, num_rows, kScale, w[2].view);
    file.kernels.swiglu({.gate = h.data(),
                         .up = up.data(),
                         .num_rows = num_rows,
                         .width = want_h.shape[1],
                         .limit = static_cast<float>(limit),
                         .weights = weight.values.data(),
                         .output = h.data()});
    const std::vector<Bf16> y = Linear(file.kernels, h, num_rows, kScale, w[1].view);
    file.Note(name + " h", RowsWithin(Shaped(h, want_h), want_h, 5e-3));
    file.Note(name + " y", RowsWithin(Shaped(y, want_y), want_y, 5e-3));
  }
  return {};
}

Status CheckConvert(GoldenFile& file) {
  DSV4_ASSIGN(const Floats w, file.Load("w"));
  DSV4_ASSIGN(const Floats scale, file.Load("scale"));
  DSV4_ASSIGN(const Floats want_code, file.Load("code"));
  DSV4_ASSIGN(const Floats want_scale, file.Load("code_scale"));
  const OwnedWeight weight = MakeWeight(w, scale, true);
  const Fp4Matrix matrix{weight.view.rows, weight.view.cols, std::as_bytes(std::span(weight.codes)),
                         std::as_bytes(std::span(weight.e8m0))};
  std::vector<std::byte> codes(want_code.values.size());
  std::vector<std::byte> scales(want_scale.values.size());
  const auto tiles = static_cast<size_t>(want_scale.shape[1]);
  const auto band_codes = static_cast<size_t>(kFp8Tile * matrix.cols);
  for (int64_t band = 0; band < want_scale.shape[0]; ++band) {
    const auto at = static_cast<size_t>(band);
    DSV4_TRY(Fp8ScalesOfBand(matrix, band, std::span(scales).subspan(at * tiles, tiles)));
    const auto rest = std::span(codes).subspan(at * band_codes);
    DSV4_TRY(Fp8CodesOfBand(matrix, band, rest.first(std::min(band_codes, rest.size()))));
  }
  std::vector<float> tile_scales;
  for (const std::byte code : scales) {
    tile_scales.push_back(DecodeE8m0(std::to_integer<uint8_t>(code)));
  }
  file.Note("code", test::SameBits(Shaped(codes, want_code), want_code));
  file.Note("code_scale", test::SameBits(Shaped(tile_scales, want_scale), want_scale));
  return {};
}

}  // namespace dsv4::tools
