// act_quant, act_quant_in_place and the stored rows: bit for bit as in ref.
#include <fmt/format.h>

#include <memory>

#include "tests/support/against_ref.h"
#include "tests/support/kernel_checks.h"
#include "tests/support/kernel_inputs.h"
#include "tests/support/model_shapes.h"

namespace dsv4::test {
namespace {

using kernels::ActScale;
using kernels::Kernels;

// [num_rows, cols] in blocks.
struct Blocks {
  int64_t num_rows;
  int64_t cols;
  int32_t block;
};

Verdict ActQuant(const Kernels& set, const std::vector<Bf16>& x, const Blocks& s, ActScale scale) {
  return SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    auto* const codes = buffers->Output<uint8_t>(s.num_rows * s.cols);
    auto* const scales = buffers->Output<float>(s.num_rows * ((s.cols + s.block - 1) / s.block));
    kernels.act_quant(x.data(), s.num_rows, s.cols, s.block, scale, codes, scales);
  });
}

Verdict ActQuantInPlace(const Kernels& set, const std::vector<Bf16>& x, const Blocks& s,
                        ActScale scale) {
  return SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    kernels.act_quant_in_place(buffers->Output(x), s.num_rows, s.cols, s.block, scale);
  });
}

// Both entries, both kinds of scale, for every shape.
void AddQuant(std::vector<KernelCheck>* checks, const std::string& name,
              const std::vector<Blocks>& shapes, std::vector<Bf16> (*input)(int64_t n)) {
  using Run = Verdict (*)(const Kernels&, const std::vector<Bf16>&, const Blocks&, ActScale);
  for (const auto& [op, run] : {std::pair<const char*, Run>{"act_quant", ActQuant},
                                {"act_quant_in_place", ActQuantInPlace}}) {
    checks->push_back(
        {op, name, [=, run = run](const Kernels& set) {
           Verdicts verdicts;
           for (const Blocks& s : shapes) {
             const std::vector<Bf16> x = input(s.num_rows * s.cols);
             for (const auto scale : {ActScale::kExact, ActScale::kPowerOfTwo}) {
               verdicts.Add(fmt::format("{} x {} in blocks of {}", s.num_rows, s.cols, s.block),
                            run(set, x, s, scale));
             }
           }
           return verdicts.Total();
         }});
  }
}

void AddQuantChecks(std::vector<KernelCheck>* checks) {
  const auto wild = [](int64_t n) { return WildBf16(n, 1); };
  const auto gaussian = [](int64_t n) { return RandomBf16(n, 2); };
  const auto all = [](int64_t) { return AllBf16(); };
  std::vector<Blocks> ragged;
  for (int64_t cols = 0; cols <= 135; ++cols) {
    ragged.push_back({2, cols, 32});
    ragged.push_back({3, cols, 128});
  }
  AddQuant(checks, "2 x 0..135, with specials", ragged, wild);
  AddQuant(checks, "every bf16 in blocks of 128", {{512, 128, 128}}, all);
  AddQuant(checks, "every bf16 alone", {{1, 65536, 1}}, all);
  for (const ModelShapes& model : kPublished) {
    std::vector<Blocks> shapes;
    for (const int64_t cols :
         {int64_t{model.dim}, int64_t{model.q_rank}, int64_t{model.expert_width},
          int64_t{model.o_groups} * model.o_rank, int64_t{model.head_dim - model.rope_width}}) {
      shapes.push_back({3, cols, cols % 128 == 0 ? 128 : 64});
    }
    AddQuant(checks, fmt::format("{} widths", model.name), shapes, gaussian);
    AddQuant(checks, fmt::format("{} widths, with specials", model.name), shapes, wild);
  }
}

// Packs and unpacks rows of any layout.
template <class Layout>
struct RowEntries {
  const char* pack_name;
  const char* unpack_name;
  void (*Kernels::*pack)(const Bf16*, int64_t, Layout, std::byte*);
  void (*Kernels::*unpack)(const std::byte*, int64_t, Layout, Bf16*);
};

template <class Layout>
Verdict Pack(const Kernels& set, const RowEntries<Layout>& entries, const std::vector<Bf16>& x,
             Layout layout) {
  const int64_t num_rows = static_cast<int64_t>(x.size()) / layout.width;
  return SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    auto* const packed = buffers->Output<std::byte>(num_rows * layout.row_bytes());
    (kernels.*entries.pack)(x.data(), num_rows, layout, packed);
  });
}

template <class Layout>
Verdict Unpack(const Kernels& set, const RowEntries<Layout>& entries,
               const std::vector<std::byte>& packed, Layout layout) {
  const int64_t num_rows = static_cast<int64_t>(packed.size()) / layout.row_bytes();
  return SameBitsAsRef(set, [&](const Kernels& kernels, CallBuffers* buffers) {
    auto* const x = buffers->Output<Bf16>(num_rows * layout.width);
    (kernels.*entries.unpack)(packed.data(), num_rows, layout, x);
  });
}

template <class Layout>
void AddRows(std::vector<KernelCheck>* checks, const RowEntries<Layout>& entries,
             const std::string& name, const std::vector<Layout>& layouts) {
  constexpr int64_t kRows = 40;
  checks->push_back({entries.pack_name, name + ", with specials", [=](const Kernels& set) {
                       Verdicts verdicts;
                       for (const Layout& layout : layouts) {
                         verdicts.Add(
                             fmt::format("width {}", layout.width),
                             Pack(set, entries, WildBf16(kRows * layout.width, 3), layout));
                       }
                       return verdicts.Total();
                     }});
  checks->push_back(
      {entries.unpack_name, name + ", any bytes", [=](const Kernels& set) {
         Verdicts verdicts;
         for (const Layout& layout : layouts) {
           verdicts.Add(fmt::format("width {}", layout.width),
                        Unpack(set, entries, RandomBytes(kRows * layout.row_bytes(), 4), layout));
         }
         return verdicts.Total();
       }});
}

constexpr RowEntries<KvRowLayout> kKvRows = {"pack_kv_rows", "unpack_kv_rows",
                                             &Kernels::pack_kv_rows, &Kernels::unpack_kv_rows};
constexpr RowEntries<IndexRowLayout> kIndexRows = {
    "pack_index_rows", "unpack_index_rows", &Kernels::pack_index_rows, &Kernels::unpack_index_rows};

// Row s has scale code s, and every code byte in turn.
template <class Layout>
std::vector<std::byte> EveryCodeAndScale(Layout layout, int64_t num_scales) {
  std::vector<std::byte> packed(static_cast<size_t>(256 * layout.row_bytes()));
  for (int64_t row = 0; row < 256; ++row) {
    std::byte* const p = packed.data() + row * layout.row_bytes();
    for (int64_t i = 0; i < layout.scale_offset(); ++i) p[i] = static_cast<std::byte>(i);
    std::fill_n(p + layout.scale_offset(), num_scales, static_cast<std::byte>(row));
  }
  return packed;
}

void AddStoredRowChecks(std::vector<KernelCheck>* checks) {
  for (const bool packed : {true, false}) {
    std::vector<KvRowLayout> ragged;
    for (const auto& [width, rope] : std::vector<std::pair<int32_t, int32_t>>{
             {64, 64}, {128, 64}, {144, 16}, {192, 64}, {72, 8}, {67, 3}, {64, 0}, {321, 1}}) {
      ragged.push_back({width, rope, packed});
    }
    const char* const kind = packed ? "" : " as bf16";
    AddRows(checks, kKvRows, fmt::format("ragged layouts{}", kind), ragged);
    AddRows(checks, kKvRows, fmt::format("512 channels, 64 rotary{}", kind), {{512, 64, packed}});
  }
  checks->push_back({"pack_kv_rows", "every bf16", [](const Kernels& set) {
                       return Pack(set, kKvRows, AllBf16(), {512, 64, true});
                     }});
  checks->push_back({"unpack_kv_rows", "every code with every scale", [](const Kernels& set) {
                       const KvRowLayout layout{256 + 64, 64, true};
                       return Unpack(set, kKvRows, EveryCodeAndScale(layout, 4), layout);
                     }});
  std::vector<IndexRowLayout> ragged;
  for (int32_t width = 32; width <= 256; width += 32) ragged.push_back({width});
  AddRows(checks, kIndexRows, "32, 64 to 256 channels", ragged);
  AddRows(checks, kIndexRows, "128 channels", {IndexRowLayout{128}});
  checks->push_back({"pack_index_rows", "every bf16",
                     [](const Kernels& set) { return Pack(set, kIndexRows, AllBf16(), {128}); }});
  checks->push_back({"unpack_index_rows", "every code with every scale", [](const Kernels& set) {
                       const IndexRowLayout layout{512};
                       return Unpack(set, kIndexRows, EveryCodeAndScale(layout, 16), layout);
                     }});
}

}  // namespace

std::vector<KernelCheck> QuantisationChecks() {
  std::vector<KernelCheck> checks;
  AddQuantChecks(&checks);
  AddStoredRowChecks(&checks);
  return checks;
}

}  // namespace dsv4::test
