#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "kernels/dispatch.h"
#include "tools/ops_golden.h"

namespace dsv4::tools {
namespace {

const std::filesystem::path kFolder = DSV4_TEST_DATA "/model/kernels";

TEST(OpsGolden, EverySetAgreesWithTheVectors) {
  for (const kernels::Kernels* kernels : kernels::Runnable()) {
    const auto results = RunKernelGolden(*kernels, kFolder);
    ASSERT_TRUE(results) << results.error().message;
    std::set<std::string> files;
    for (const GoldenResult& result : *results) {
      EXPECT_TRUE(result.verdict) << kernels->name << " " << result.file << " " << result.name;
      files.insert(result.file);
    }
    EXPECT_EQ(files.size(), 14u);
    EXPECT_GE(results->size(), 143u);
  }
}

// Which files' comparisons fail with `table`.
std::set<std::string> FailingFiles(const kernels::Kernels& table) {
  std::set<std::string> files;
  const auto results = RunKernelGolden(table, kFolder);
  EXPECT_TRUE(results);
  if (!results) return files;
  for (const GoldenResult& result : *results) {
    if (!result.verdict.ok) files.insert(result.file);
  }
  return files;
}

const kernels::Kernels& Ref() { return *kernels::Choose("ref").value(); }

TEST(OpsGolden, APlantedFaultFailsInItsFile) {
  kernels::Kernels table = Ref();
  table.swiglu = [](const kernels::SwigluArgs& args) {
    kernels::SwigluArgs wrong = args;
    wrong.weights = nullptr;
    Ref().swiglu(wrong);
  };
  EXPECT_EQ(FailingFiles(table), (std::set<std::string>{"expert", "router"}));

  table = Ref();
  table.sparse_attention = [](const kernels::SparseAttentionArgs& args) {
    kernels::SparseAttentionArgs wrong = args;
    const std::vector<float> no_sink(static_cast<size_t>(args.num_heads), -1000.0f);
    wrong.sink = no_sink.data();
    Ref().sparse_attention(wrong);
  };
  EXPECT_EQ(FailingFiles(table), std::set<std::string>{"sparse_attn"});

  table = Ref();
  table.hadamard = [](Bf16*, int64_t, int32_t) {};
  EXPECT_EQ(FailingFiles(table), std::set<std::string>{"hadamard"});
}

// Rows as small as 1e-28 are compared by their own norm.
TEST(OpsGolden, TinyAttentionRowsAreNotTakenForZero) {
  kernels::Kernels table = Ref();
  table.sparse_attention = [](const kernels::SparseAttentionArgs& args) {
    Ref().sparse_attention(args);
    for (int32_t i = 0; i < args.num_heads * args.layout.width; ++i) {
      if (std::abs(ToFloat(args.output[i])) < 1e-20f) args.output[i] = Bf16{};
    }
  };
  EXPECT_EQ(FailingFiles(table), std::set<std::string>{"sparse_attn"});
}

TEST(OpsGolden, MissingFolderAndUnknownFileAreErrors) {
  EXPECT_FALSE(RunKernelGolden(Ref(), "/no/such/folder"));
  const auto folder = std::filesystem::temp_directory_path() / "dsv4_ops_golden_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "kernels.json") << "{}";
  std::ofstream(folder / "novel.safetensors") << "x";
  const auto results = RunKernelGolden(Ref(), folder);
  std::filesystem::remove_all(folder);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().kind, ErrorKind::kBadInput);
  EXPECT_THAT(results.error().message, testing::HasSubstr("novel.safetensors"));
}

}  // namespace
}  // namespace dsv4::tools
