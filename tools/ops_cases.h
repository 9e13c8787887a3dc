// The cases of `dsv4 ops perf`; those of `dsv4 ops check` are tests/support/kernel_checks.h.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace dsv4::tools {

// What of an operation's operands comes from memory: weights and stored rows do, activations are in
// the caches. Every call gets other bytes.
struct ColdBytes {
  int64_t bytes = 0;   // that a call may touch; 0: it reads nothing from memory
  int64_t unit = 64;   // they begin at a multiple of it
  int64_t offset = 0;  // and this much behind that
  // What the memory is filled with, again and again: whole units.
  std::string contents;
  std::function<std::vector<std::byte>()> make;
};

// Computes items [begin, end) of a call whose cold operand is at `cold`.
using PerfCall = std::function<void(const std::byte* cold, int64_t begin, int64_t end, int thread)>;

// One measured call of an operation.
struct PerfCase {
  std::string op;
  std::string name;
  int64_t items = 0;  // what threads claim; `grain` of them at a time
  std::function<int64_t(int num_threads)> grain;
  double bytes = 0;  // read and written at least, all items
  double flops = 0;  // multiplications and additions, all items
  ColdBytes cold;
  // Makes the other operands and the outputs.
  std::function<PerfCall(const kernels::Kernels& set, int num_threads)> prepare;
};

std::vector<PerfCase> ProductPerfCases();
std::vector<PerfCase> RowPerfCases();
std::vector<PerfCase> SelectionPerfCases();

}  // namespace dsv4::tools
