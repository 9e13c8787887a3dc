#include "ops/cpu_ops.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/cpu_ops_impl.h"

namespace dsv4 {
namespace {

OpKind KindOf(const WeightView& weight) {
  switch (weight.format) {
    case WeightFormat::kFp8:
      return OpKind::kLinearFp8;
    case WeightFormat::kFp4:
      return OpKind::kLinearFp4;
    case WeightFormat::kBf16:
      return OpKind::kLinearBf16;
    case WeightFormat::kF32:
      return OpKind::kLinearF32;
  }
  return OpKind::kLinearF32;
}

}  // namespace

std::unique_ptr<Ops> MakeCpuOps(const kernels::Kernels& kernels, int num_threads) {
  return std::make_unique<CpuOps>(kernels, num_threads);
}

void CpuOps::Embed(std::span<const int32_t> tokens, const WeightView& embed, int32_t hc, Bf16* h) {
  const Timed timed(profile_, OpKind::kEmbed);
  DSV4_CHECK(embed.format == WeightFormat::kBf16);
  const int64_t dim = embed.cols;
  ForRows(static_cast<int64_t>(tokens.size()), dim * hc, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t token = tokens[static_cast<size_t>(t)];
      DSV4_CHECK(token >= 0 && token < embed.rows, "token {} of {}", token, embed.rows);
      for (int64_t j = 0; j < hc; ++j) {
        std::memcpy(h + (t * hc + j) * dim, embed.data + token * embed.row_bytes(),
                    static_cast<size_t>(embed.row_bytes()));
      }
    }
  });
}

void CpuOps::RmsNorm(const Bf16* x, const Bf16* w, int64_t num_rows, int64_t cols, float eps,
                     Bf16* y) {
  const Timed timed(profile_, OpKind::kRmsNorm);
  ForRows(num_rows, cols * 2, [&](int64_t begin, int64_t end, int) {
    kernels_.rms_norm(x + begin * cols, w, end - begin, cols, eps, y + begin * cols);
  });
}

PreparedRows CpuOps::Prepare(const Bf16* x, int64_t num_rows, int64_t cols, int64_t stride,
                             const ActivationSpec& spec, Workspace& workspace) {
  const Timed timed(profile_, OpKind::kPrepare);
  PreparedRows result;
  result.row_bytes = kernels_.prepared_row_bytes(spec.activation, cols, spec.block);
  result.num_rows = num_rows;
  result.cols = cols;
  result.spec = spec;
  std::byte* prepared = workspace.TakeBytes(num_rows * result.row_bytes);
  result.data = prepared;
  ForRows(num_rows, cols * 4, [&](int64_t begin, int64_t end, int) {
    kernels::PrepareArgs args;
    args.x = x + begin * stride;
    args.x_stride = stride;
    args.num_rows = end - begin;
    args.cols = cols;
    args.activation = spec.activation;
    args.scale = spec.scale;
    args.block = spec.block;
    args.prepared = prepared + begin * result.row_bytes;
    kernels_.prepare(args);
  });
  return result;
}

void CpuOps::Product(const PreparedRows& x, const WeightView& weight, int64_t begin, int64_t end,
                     kernels::OutputType type, void* y, int64_t stride) {
  const Timed timed(profile_, KindOf(weight), weight.bytes_of_rows(end - begin),
                    2 * x.num_rows * x.cols * (end - begin));
  DSV4_CHECK(x.cols == weight.cols, "activations of {} columns, weight of {}", x.cols, weight.cols);
  DSV4_CHECK(begin >= 0 && end <= weight.rows, "rows {}..{} of {}", begin, end, weight.rows);
  const int64_t element_bytes = type == kernels::OutputType::kBf16 ? 2 : 4;
  pool_.For(end - begin, ProductGrain(end - begin, x.num_rows, num_threads()),
            [&](int64_t first, int64_t last, int) {
              kernels::ProductArgs args;
              args.prepared = x.data;
              args.num_rows = x.num_rows;
              args.activation = x.spec.activation;
              args.scale = x.spec.scale;
              args.block = x.spec.block;
              args.weight = &weight;
              args.begin = begin + first;
              args.end = begin + last;
              args.output_type = type;
              args.output = static_cast<std::byte*>(y) + first * element_bytes;
              args.output_stride = stride;
              kernels_.product(args);
            });
}

void CpuOps::LinearSlice(const PreparedRows& x, const WeightView& weight, int64_t begin,
                         int64_t end, Bf16* y, int64_t stride) {
  Product(x, weight, begin, end, kernels::OutputType::kBf16, y, stride);
}

void CpuOps::LinearF32(const PreparedRows& x, const WeightView& weight, float* y) {
  Product(x, weight, 0, weight.rows, kernels::OutputType::kF32, y, weight.rows);
}

float* CpuOps::HyperMixes(OpKind kind, const Bf16* h, int64_t num_rows, const WeightView& fn,
                          float eps, Workspace& workspace) {
  float* mixes = workspace.Take<float>(num_rows * fn.rows);
  float* factor = workspace.Take<float>(num_rows);
  const Workspace::Scope scope(workspace);
  const PreparedRows rows = Prepare(h, num_rows, fn.cols, fn.cols, ActivationSpec{}, workspace);
  LinearF32(rows, fn, mixes);
  const Timed timed(profile_, kind, /*bytes=*/0, /*flops=*/0, /*calls=*/0);
  ForRows(num_rows, fn.cols, [&](int64_t begin, int64_t end, int) {
    kernels_.rms_factor(h + begin * fn.cols, end - begin, fn.cols, eps, factor + begin);
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < fn.rows; ++i) mixes[t * fn.rows + i] *= factor[t];
    }
  });
  return mixes;
}

void CpuOps::HyperPre(const HyperPreArgs& args, Workspace& workspace) {
  const int64_t hc = args.hc;
  DSV4_CHECK(args.fn.rows == (2 + hc) * hc && args.fn.cols == hc * args.dim);
  const Workspace::Scope scope(workspace);
  const float* mixes =
      HyperMixes(OpKind::kHyperPre, args.h, args.num_rows, args.fn, args.norm_eps, workspace);
  float* pre = workspace.Take<float>(args.num_rows * hc);
  const Timed timed(profile_, OpKind::kHyperPre);
  ForRows(args.num_rows, hc * args.dim, [&](int64_t begin, int64_t end, int) {
    kernels::HcSplitArgs split;
    split.mixes = mixes + begin * args.fn.rows;
    split.num_rows = end - begin;
    split.hc = args.hc;
    split.sinkhorn_iters = args.sinkhorn_iters;
    split.eps = args.hc_eps;
    split.scale = args.scale;
    split.base = args.base;
    split.pre = pre + begin * hc;
    split.post = args.post + begin * hc;
    split.comb = args.comb + begin * hc * hc;
    kernels_.hc_split(split);
    kernels_.hc_combine(args.h + begin * hc * args.dim, split.pre, split.num_rows, args.hc,
                        args.dim, args.x + begin * args.dim);
  });
}

void CpuOps::HyperPost(const Bf16* x, const float* post, const float* comb, int64_t num_rows,
                       int32_t hc, int64_t dim, Bf16* h) {
  const Timed timed(profile_, OpKind::kHyperPost);
  ForRows(num_rows, hc * hc * dim, [&](int64_t begin, int64_t end, int) {
    kernels_.hc_post(x + begin * dim, post + begin * hc, comb + begin * hc * hc, end - begin, hc,
                     dim, h + begin * hc * dim);
  });
}

void CpuOps::HyperHead(const HyperHeadArgs& args, Workspace& workspace) {
  const int64_t hc = args.hc;
  DSV4_CHECK(args.fn.rows == hc && args.fn.cols == hc * args.dim);
  const Workspace::Scope scope(workspace);
  const float* mixes =
      HyperMixes(OpKind::kHyperHead, args.h, args.num_rows, args.fn, args.norm_eps, workspace);
  float* pre = workspace.Take<float>(args.num_rows * hc);
  const Timed timed(profile_, OpKind::kHyperHead);
  ForRows(args.num_rows, hc * args.dim, [&](int64_t begin, int64_t end, int) {
    kernels_.hc_head_pre(mixes + begin * hc, end - begin, args.hc, args.scale, args.base,
                         args.hc_eps, pre + begin * hc);
    kernels_.hc_combine(args.h + begin * hc * args.dim, pre + begin * hc, end - begin, args.hc,
                        args.dim, args.x + begin * args.dim);
  });
}

void CpuOps::Rope(Bf16* x, int64_t num_rows, int32_t num_heads, int32_t width,
                  const RopeTable& table, bool inverse) {
  const Timed timed(profile_, OpKind::kRope);
  DSV4_CHECK(table.width <= width, "rotary width {} of {}", table.width, width);
  const int64_t row = int64_t{num_heads} * width;
  ForRows(num_rows, int64_t{num_heads} * table.width * 4, [&](int64_t begin, int64_t end, int) {
    kernels::RopeArgs args;
    args.x = x + begin * row + (width - table.width);
    args.num_rows = end - begin;
    args.row_stride = row;
    args.num_heads = num_heads;
    args.head_stride = width;
    args.width = table.width;
    args.cos = table.cos + begin * (table.width / 2);
    args.sin = table.sin + begin * (table.width / 2);
    args.inverse = inverse;
    kernels_.rope(args);
  });
}

void CpuOps::Hadamard(Bf16* x, int64_t num_rows, int32_t n) {
  const Timed timed(profile_, OpKind::kHadamard);
  ForRows(num_rows, int64_t{n} * 8, [&](int64_t begin, int64_t end, int) {
    kernels_.hadamard(x + begin * n, end - begin, n);
  });
}

void CpuOps::PackKvRows(const Bf16* x, int64_t num_rows, KvRowLayout layout, std::byte* packed) {
  const Timed timed(profile_, OpKind::kPackRows);
  ForRows(num_rows, int64_t{layout.width} * 4, [&](int64_t begin, int64_t end, int) {
    kernels_.pack_kv_rows(x + begin * layout.width, end - begin, layout,
                          packed + begin * layout.row_bytes());
  });
}

void CpuOps::UnpackKvRows(const std::byte* packed, int64_t num_rows, KvRowLayout layout, Bf16* x) {
  kernels_.unpack_kv_rows(packed, num_rows, layout, x);
}

void CpuOps::PackIndexRows(const Bf16* x, int64_t num_rows, IndexRowLayout layout,
                           std::byte* packed) {
  const Timed timed(profile_, OpKind::kPackRows);
  ForRows(num_rows, int64_t{layout.width} * 4, [&](int64_t begin, int64_t end, int) {
    kernels_.pack_index_rows(x + begin * layout.width, end - begin, layout,
                             packed + begin * layout.row_bytes());
  });
}

void CpuOps::UnpackIndexRows(const std::byte* packed, int64_t num_rows, IndexRowLayout layout,
                             Bf16* x) {
  kernels_.unpack_index_rows(packed, num_rows, layout, x);
}

void CpuOps::AddPeriodic(float* y, int64_t cols, std::span<const int64_t> positions,
                         const float* table, int64_t period) {
  const Timed timed(profile_, OpKind::kElementwise);
  ForRows(static_cast<int64_t>(positions.size()), cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float* row = table + positions[static_cast<size_t>(t)] % period * cols;
      for (int64_t i = 0; i < cols; ++i) y[t * cols + i] += row[i];
    }
  });
}

void CpuOps::Round(const float* x, int64_t n, Bf16* y) {
  const Timed timed(profile_, OpKind::kElementwise);
  ForRows(n, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) y[i] = ToBf16(x[i]);
  });
}

void CpuOps::AddToCopies(const Bf16* x, int64_t num_rows, int32_t hc, int64_t dim, Bf16* h) {
  const Timed timed(profile_, OpKind::kElementwise);
  ForRows(num_rows * hc, dim, [&](int64_t begin, int64_t end, int) {
    for (int64_t copy = begin; copy < end; ++copy) {
      const Bf16* row = x + copy / hc * dim;
      for (int64_t i = 0; i < dim; ++i) {
        Bf16& target = h[copy * dim + i];
        target = ToBf16(ToFloat(target) + ToFloat(row[i]));
      }
    }
  });
}

}  // namespace dsv4
