// Rules for the scalar formats and for quantisation: bit for bit.
#include <charconv>

#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "tools/ops_golden_file.h"

namespace dsv4::tools {
namespace {

template <class Function>
Status CheckMap(GoldenFile& file, const std::string& in, const std::string& out,
                Function function) {
  DSV4_ASSIGN(const Floats x, file.Load(in));
  DSV4_ASSIGN(const Floats want, file.Load(out));
  Floats got{{}, x.shape};
  for (const float value : x.values) got.values.push_back(function(value));
  file.Note(out, test::SameBits(got, want));
  return {};
}

template <class Function>
Status CheckTable(GoldenFile& file, const std::string& name, Function decode) {
  DSV4_ASSIGN(const Floats want, file.Load(name));
  Floats got{{}, want.shape};
  for (size_t code = 0; code < want.values.size(); ++code) {
    got.values.push_back(decode(static_cast<uint8_t>(code)));
  }
  file.Note(name, test::SameBits(got, want));
  return {};
}

// The number after `key` in a case's name like "b128_n384_none".
int32_t NumberAfter(const std::string& name, std::string_view key) {
  const size_t at = name.find(key);
  int32_t number = 0;
  if (at != std::string::npos) {
    std::from_chars(name.data() + at + key.size(), name.data() + name.size(), number);
  }
  return number;
}

}  // namespace

Status CheckFormats(GoldenFile& file) {
  DSV4_TRY(CheckTable(file, "e4m3_value", DecodeE4m3));
  DSV4_TRY(CheckTable(file, "e2m1_value", DecodeE2m1));
  DSV4_TRY(CheckTable(file, "e8m0_value", DecodeE8m0));
  DSV4_TRY(CheckMap(file, "bf16_in", "bf16_out", RoundToBf16));
  DSV4_TRY(CheckMap(file, "pow2_ceil_in", "pow2_ceil_out", Pow2Ceil));
  DSV4_TRY(CheckMap(file, "e4m3_in", "e4m3_code", [](float x) { return AsFloat(EncodeE4m3(x)); }));
  return CheckMap(file, "e2m1_in", "e2m1_code", [](float x) { return AsFloat(EncodeE2m1(x)); });
}

Status CheckActQuant(GoldenFile& file) {
  for (const std::string& name : file.Cases()) {
    DSV4_ASSIGN(const Floats x, file.Load(name + ".x"));
    DSV4_ASSIGN(const Floats codes, file.Load(name + ".code"));
    DSV4_ASSIGN(const Floats scales, file.Load(name + ".scale"));
    DSV4_ASSIGN(const Floats in_place, file.Load(name + ".inplace"));
    const int32_t block = NumberAfter(name, "b");
    if (block <= 0) return BadInput("{}: no block width in the name", name);
    const auto scale =
        name.ends_with("_none") ? kernels::ActScale::kExact : kernels::ActScale::kPowerOfTwo;
    std::vector<Bf16> values = ToBf16s(x);
    std::vector<uint8_t> got_codes(values.size());
    std::vector<float> got_scales(scales.values.size());
    file.kernels.act_quant(values.data(), x.shape[0], x.shape[1], block, scale, got_codes.data(),
                           got_scales.data());
    file.kernels.act_quant_in_place(values.data(), x.shape[0], x.shape[1], block, scale);
    file.Note(name + " code", test::SameBits(Shaped(got_codes, codes), codes));
    file.Note(name + " scale", test::SameBits(Shaped(got_scales, scales), scales));
    file.Note(name + " inplace", test::SameBits(Shaped(values, in_place), in_place));
  }
  return {};
}

Status CheckFp4ActQuant(GoldenFile& file) {
  DSV4_ASSIGN(const Floats x, file.Load("x"));
  DSV4_ASSIGN(const Floats packed, file.Load("packed"));
  DSV4_ASSIGN(const Floats scales, file.Load("scale_e8m0"));
  DSV4_ASSIGN(const Floats in_place, file.Load("inplace"));
  const IndexRowLayout layout{static_cast<int32_t>(x.shape[1])};
  const int64_t num_rows = x.shape[0];
  std::vector<Bf16> values = ToBf16s(x);
  std::vector<std::byte> rows(static_cast<size_t>(num_rows * layout.row_bytes()));
  file.kernels.pack_index_rows(values.data(), num_rows, layout, rows.data());
  std::vector<std::byte> got_packed;
  std::vector<std::byte> got_scales;
  for (int64_t r = 0; r < num_rows; ++r) {
    const auto row = rows.begin() + r * layout.row_bytes();
    got_packed.insert(got_packed.end(), row, row + layout.scale_offset());
    got_scales.insert(got_scales.end(), row + layout.scale_offset(), row + layout.row_bytes());
  }
  file.kernels.unpack_index_rows(rows.data(), num_rows, layout, values.data());
  file.Note("packed", test::SameBits(Shaped(got_packed, packed), packed));
  file.Note("scale_e8m0", test::SameBits(Shaped(got_scales, scales), scales));
  file.Note("inplace", test::SameBits(Shaped(values, in_place), in_place));
  return {};
}

}  // namespace dsv4::tools
