// The entries other than products, by instruction set; each fills its part of a table.
#pragma once

#include "kernels/kernels.h"

namespace dsv4::kernels::cpu {

void UseAvx2Rows(Kernels* table);
void UseAvx512Rows(Kernels* table);
void UseVnniIndexScores(Kernels* table);  // AVX-512 VNNI; index_scores alone

}  // namespace dsv4::kernels::cpu
