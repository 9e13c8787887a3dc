// Opening a checkpoint of full size: quick, and nothing is read that is not needed yet.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "kernels/dispatch.h"
#include "model/model.h"
#include "ops/cpu_ops.h"
#include "platform/file_pages.h"
#include "tests/support/hollow_checkpoint.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_limit.h"

namespace dsv4 {
namespace {

using Clock = std::chrono::steady_clock;
using testing::TempFolder;

class Start : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TempFolder>();
    testing::WriteHollowCheckpoint(SynthModel::Make("flash", {}).value(), *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // Leaves nothing of the files in memory: a page of a hole is in memory once it was touched.
  static void Forget() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_->path())) {
      DropPages(entry.path());
    }
  }
  static void DropPages(const std::filesystem::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY);
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
  static const std::filesystem::path& folder() { return folder_->path(); }

  inline static std::unique_ptr<TempFolder> folder_;
};

// Tensors that opening reads and copies: vectors, and the table of hash-routed experts.
bool IsReadAtOnce(const TensorInfo& tensor) {
  return tensor.shape.size() == 1 || tensor.name.ends_with(".tid2eid") ||
         tensor.name.ends_with(".ape");
}

TEST_F(Start, TheCheckpointIsOfFullSizeAndTakesNoRoom) {
  int64_t bytes = 0, on_disk = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    struct stat status {};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    bytes += status.st_size;
    on_disk += status.st_blocks * 512;
  }
  EXPECT_GT(bytes, 150e9);
  EXPECT_LT(on_disk, 100e6);
}

TEST_F(Start, AModelOpensInTwoSecondsAndTouchesNoWeight) {
  Forget();
  const std::unique_ptr<Ops> ops = MakeCpuOps(**kernels::Choose(""), 2);
  const auto start = Clock::now();
  const auto model = model::Model::Load(folder(), *ops, {});
  const auto taken = Clock::now() - start;
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_LT(taken, test::Within(2));

  // Read what the first look at the residency would disturb.
  const Checkpoint checkpoint = Checkpoint::Open(folder()).value();
  int64_t resident = 0, allowed = 0, num_weights = 0;
  for (const auto& mapping : checkpoint.mappings()) resident += ResidentBytes(mapping).value();
  for (size_t i = 0; i < checkpoint.files().size(); ++i) {
    allowed += checkpoint.tensors().front().data.data() - checkpoint.mappings().front().data();
  }
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto size = static_cast<int64_t>(tensor.data.size());
    if (IsReadAtOnce(tensor)) {
      allowed += size + 2 * PageBytes();
      continue;
    }
    // The pages at its ends may be its neighbours'.
    if (size < 3 * PageBytes()) continue;
    const auto page = static_cast<size_t>(PageBytes());
    ++num_weights;
    ASSERT_EQ(ResidentBytes(tensor.data.subspan(page, tensor.data.size() - 2 * page)).value(), 0)
        << tensor.name;
  }
  EXPECT_GT(num_weights, 60'000);
  EXPECT_LT(resident, 2 * allowed);
}

TEST_F(Start, InspectingItTakesTwoSeconds) {
  Forget();
  const auto start = Clock::now();
  const testing::ProgramResult result =
      testing::RunDsv4({"inspect", "--model", folder().string(), "--json"});
  EXPECT_LT(Clock::now() - start, test::Within(2));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(json::Parse(result.out)->Find("config")->Find("num_hidden_layers")->to_int64(), 43);
}

}  // namespace
}  // namespace dsv4
