// Chooses the kernel table. Unknown names and sets that this CPU cannot run are errors.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "kernels/kernels.h"

namespace dsv4::kernels {

// Every set compiled into this binary, ref first.
std::span<const Kernels* const> Compiled();
// Those of Compiled() that this CPU can run, slowest first.
std::span<const Kernels* const> Runnable();
// By name; "" picks the fastest that runs here.
Result<const Kernels*> Choose(std::string_view name);

// Runs a few fixed vectors through every entry of `kernels` in well under a second; the error names
// the kernel that answered wrongly.
Status SelfCheck(const Kernels& kernels);

// The entries of the table in its order, for listings.
struct Entry {
  std::string_view name;
  // Whether `kernels` has its own implementation; sets take what they lack from ref.
  bool (*own)(const Kernels& kernels);
};
std::span<const Entry> Entries();

}  // namespace dsv4::kernels
