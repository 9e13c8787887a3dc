// Kernel sets against ref: every entry of the table, over ragged edges and the published shapes,
// with guard bytes round what is written, NaN, infinities, subnormals and all codes. The cases of
// `dsv4 ops check` and of the kernels' unit tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tests/support/compare.h"

namespace dsv4::test {

struct KernelCheck {
  std::string op;    // the entry of the table
  std::string name;  // what of it
  std::function<Verdict(const kernels::Kernels&)> run;
};

// In the order of the table. The two sizes, prepared_row_bytes and sparse_attention_scratch_bytes,
// are held by the guards of prepare and sparse_attention.
std::vector<KernelCheck> KernelChecks();

// Its parts.
std::vector<KernelCheck> QuantisationChecks();
std::vector<KernelCheck> ProductChecks();
std::vector<KernelCheck> RowChecks();
std::vector<KernelCheck> SelectionChecks();
std::vector<KernelCheck> ExpertChecks();

}  // namespace dsv4::test
