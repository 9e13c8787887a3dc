// dsv4 synth writes at half the speed, at least, at which the same bytes go to the same disk from
// memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/run_dsv4.h"

namespace dsv4::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 3;
constexpr size_t kPieceBytes = size_t{8} << 20;

// One layer of Flash's widths with 64 experts: 1.1 GB, mostly FP4 as in the whole.
std::vector<std::string> SynthCommand(const fs::path& out) {
  return {"synth",
          "--preset",
          "flash",
          "--set",
          "num_hidden_layers=1",
          "num_hash_layers=0",
          "num_nextn_predict_layers=0",
          "compress_ratios=[4]",
          "vocab_size=8192",
          "n_routed_experts=64",
          "--out",
          out.string()};
}

template <class Action>
double SecondsOf(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// To the disk, whoever wrote it.
void Sync(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::fsync(fd), 0);
  ::close(fd);
}

void WritePlainly(const fs::path& path, const std::string& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::write(fd, bytes.data() + done, std::min(kPieceBytes, bytes.size() - done));
    ASSERT_GT(count, 0);
    done += static_cast<size_t>(count);
  }
  ::close(fd);
}

TEST(SynthSpeed, IsAtLeastHalfThatOfAPlainWriteOfTheSameBytes) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double synth = kNever, plain = kNever;  // the best of the rounds
  std::string bytes;
  for (int round = 0; round < kRounds; ++round) {
    const TempFolder folder;
    const fs::path file = folder / "model/model-00001-of-00001.safetensors";
    synth = std::min(synth, SecondsOf([&] {
                       const ProgramResult result = RunDsv4(SynthCommand(folder / "model"));
                       ASSERT_EQ(result.exit_code, 0) << result.err;
                       Sync(file);
                     }));
    if (bytes.empty()) bytes = ReadFileText(file);
    plain = std::min(plain, SecondsOf([&] {
                       WritePlainly(folder / "plain", bytes);
                       Sync(folder / "plain");
                     }));
  }
  ASSERT_GT(bytes.size(), 1'000'000'000u);
  const double gigabytes = static_cast<double>(bytes.size()) / 1e9;
  RecordProperty("synth_gb_per_s", std::to_string(gigabytes / synth));
  RecordProperty("plain_gb_per_s", std::to_string(gigabytes / plain));
  EXPECT_LE(synth, 2 * plain) << gigabytes / synth << " GB/s against " << gigabytes / plain;
}

}  // namespace
}  // namespace dsv4::testing
