// The kernel sets of x86-64 processors. The tables are there on every machine; dispatch.cc knows
// which of them a processor runs.
#pragma once

#include "kernels/kernels.h"

namespace dsv4::kernels::cpu {

const Kernels& Avx2Table();        // AVX2, FMA, F16C
const Kernels& Avx512Table();      // AVX-512 F, BW, DQ, VL besides
const Kernels& Avx512VnniTable();  // AVX-512 VNNI besides
const Kernels& Avx512Bf16Table();  // AVX-512 BF16, VBMI besides

}  // namespace dsv4::kernels::cpu
