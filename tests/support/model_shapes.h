// The widths of the published configurations that kernels see.
#pragma once

#include <cstdint>
#include <string_view>

namespace dsv4::test {

struct ModelShapes {
  std::string_view name;
  int32_t dim = 0;
  int32_t hc = 4;
  int32_t num_heads = 0;
  int32_t head_dim = 512;
  int32_t rope_width = 64;
  int32_t window = 128;
  int32_t q_rank = 0;
  int32_t o_groups = 0;
  int32_t o_rank = 1024;
  int32_t index_heads = 64;
  int32_t index_width = 128;
  int32_t index_top_k = 0;
  int32_t num_experts = 0;
  int32_t num_chosen = 6;
  int32_t expert_width = 0;
  float route_scale = 0;

  constexpr int64_t hc_dim() const { return int64_t{hc} * dim; }
  constexpr int64_t q_dim() const { return int64_t{num_heads} * head_dim; }
  constexpr int64_t group_dim() const { return q_dim() / o_groups; }  // columns of wo_a
};

inline constexpr ModelShapes kPublished[] = {{.name = "flash",
                                              .dim = 4096,
                                              .num_heads = 64,
                                              .q_rank = 1024,
                                              .o_groups = 8,
                                              .index_top_k = 512,
                                              .num_experts = 256,
                                              .expert_width = 2048,
                                              .route_scale = 1.5f},
                                             {.name = "pro",
                                              .dim = 7168,
                                              .num_heads = 128,
                                              .q_rank = 1536,
                                              .o_groups = 16,
                                              .index_top_k = 1024,
                                              .num_experts = 384,
                                              .expert_width = 3072,
                                              .route_scale = 2.5f}};

}  // namespace dsv4::test
