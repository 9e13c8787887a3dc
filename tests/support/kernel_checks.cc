#include "tests/support/kernel_checks.h"

#include <iterator>

namespace dsv4::test {

std::vector<KernelCheck> KernelChecks() {
  std::vector<KernelCheck> all;
  for (const auto part :
       {QuantisationChecks, ProductChecks, RowChecks, SelectionChecks, ExpertChecks}) {
    std::vector<KernelCheck> checks = part();
    std::move(checks.begin(), checks.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace dsv4::test
