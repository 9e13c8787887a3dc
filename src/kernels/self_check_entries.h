// The inputs of SelfCheck, one function per entry of the table.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kernels/kernels.h"

namespace dsv4::kernels {

// Weighted sums over outputs; self_check_answers.h says what they must be.
using Digests = std::vector<double>;

struct EntryCheck {
  std::string_view entry;
  Digests (*run)(const Kernels& kernels);
};

// Every entry but the two sizes and `prepare`, which `product` runs.
std::span<const EntryCheck> EntryChecks();

}  // namespace dsv4::kernels
