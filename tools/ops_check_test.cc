#include <gtest/gtest.h>

#include "kernels/dispatch.h"
#include "tools/ops_cases.h"

namespace dsv4::tools {
namespace {

TEST(OpsCheck, EverySetAgreesWithTheReference) {
  const auto checks = ProductChecks();
  EXPECT_GT(checks.size(), 100u);
  for (const kernels::Kernels* set : kernels::Runnable()) {
    for (const CheckCase& check : checks) {
      const test::Verdict verdict = check.run(*set);
      EXPECT_TRUE(verdict.ok) << set->name << " " << check.op << " " << check.name << ": "
                              << verdict.text;
    }
  }
}

const kernels::Kernels& Ref() { return **kernels::Choose("ref"); }

int64_t NumFailures(const kernels::Kernels& set) {
  int64_t num_failed = 0;
  for (const CheckCase& check : ProductChecks()) num_failed += !check.run(set).ok;
  return num_failed;
}

TEST(OpsCheck, PlantedFaultsFail) {
  kernels::Kernels table = Ref();
  // A row's bits depend on the company.
  table.product = [](const kernels::ProductArgs& args) {
    Ref().product(args);
    auto* const y = static_cast<float*>(args.output);
    if (args.num_rows > 1 && args.end > args.begin) y[0] = y[0] * (1 + 0x1p-20f);
  };
  EXPECT_GT(NumFailures(table), 20);
  // One byte behind the output.
  table.product = [](const kernels::ProductArgs& args) {
    Ref().product(args);
    if (args.end == args.weight->rows) {
      auto* const y = static_cast<float*>(args.output);
      y[(args.num_rows - 1) * args.output_stride + args.end - args.begin] = 0;
    }
  };
  EXPECT_GT(NumFailures(table), 20);
  // NaN codes read as numbers.
  table.product = [](const kernels::ProductArgs& args) {
    Ref().product(args);
    auto* const y = static_cast<float*>(args.output);
    for (int64_t r = 0; r < args.num_rows; ++r) {
      for (int64_t n = 0; n < args.end - args.begin; ++n) {
        float& value = y[r * args.output_stride + n];
        if (value != value) value = 0;
      }
    }
  };
  EXPECT_GT(NumFailures(table), 2);
}

}  // namespace
}  // namespace dsv4::tools
