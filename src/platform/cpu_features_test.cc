#include "platform/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace dsv4 {
namespace {

TEST(CpuFeatures, TextNamesWhatIsPresent) {
  EXPECT_EQ(CpuFeatures{}.Text(), "none");
  EXPECT_EQ((CpuFeatures{.avx2 = true, .amx_int8 = true}).Text(), "avx2 amx_int8");
}

#if defined(__x86_64__)
TEST(CpuFeatures, AgreesWithCompilerBuiltin) {
  const CpuFeatures& f = GetCpuFeatures();
  EXPECT_EQ(f.avx2, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(f.fma, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(f.avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(f.avx512bw, __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(f.avx512dq, __builtin_cpu_supports("avx512dq") != 0);
  EXPECT_EQ(f.avx512vl, __builtin_cpu_supports("avx512vl") != 0);
  EXPECT_EQ(f.avx512_vbmi, __builtin_cpu_supports("avx512vbmi") != 0);
  EXPECT_EQ(f.avx512_vnni, __builtin_cpu_supports("avx512vnni") != 0);
}

TEST(CpuFeatures, AgreesWithProcCpuinfo) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags")) {
  }
  ASSERT_FALSE(line.empty()) << "no flags in /proc/cpuinfo";
  const std::string padded = line + " ";
  const auto has = [&](const char* flag) {
    return padded.find(std::string(" ") + flag + " ") != std::string::npos;
  };
  const CpuFeatures& f = GetCpuFeatures();
  EXPECT_EQ(f.avx2, has("avx2"));
  EXPECT_EQ(f.f16c, has("f16c"));
  EXPECT_EQ(f.avx512_bf16, has("avx512_bf16"));
  EXPECT_EQ(f.avx_vnni, has("avx_vnni"));
  EXPECT_EQ(f.amx_tile, has("amx_tile"));
}

TEST(CpuFeatures, VendorIsTheKernels) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(GetCpuFeatures().intel, text.find("GenuineIntel") != std::string::npos);
}
#endif

}  // namespace
}  // namespace dsv4
