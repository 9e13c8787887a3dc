// A golden FP8 model as older checkpoints have it: config.json names no scale_fmt, so that
// activations are quantised with exact scales, and the scales of FP8 weights are fp32 numbers that
// are no powers of two. The other tensors stay as they are.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "numeric/e8m0.h"
#include "tests/support/temp_folder.h"

namespace dsv4::testing {

class ExactScaleModel {
 public:
  explicit ExactScaleModel(const std::string& variant) {
    const std::string source = std::string(DSV4_TEST_DATA "/model/") + variant + "/checkpoint";
    WriteConfig(ReadFileText(source + "/config.json"));
    const Checkpoint checkpoint = Checkpoint::Open(source).value();
    std::vector<TensorToWrite> tensors;
    std::vector<std::vector<std::byte>> kept;
    kept.reserve(checkpoint.tensors().size());
    for (const TensorInfo& tensor : checkpoint.tensors()) {
      tensors.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.data});
      if (!ScalesFp8(checkpoint, tensor)) continue;
      kept.push_back(WideScales(tensor));
      tensors.back().dtype = DType::kF32;
      tensors.back().data = kept.back();
    }
    EXPECT_GT(kept.size(), 5u);
    const Status status = WriteSafetensors(folder_ / "model.safetensors", tensors);
    EXPECT_TRUE(status) << status.error().message;
  }

  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void WriteConfig(const std::string& text) {
    const std::string field = R"("scale_fmt": "ue8m0",)";
    const size_t at = text.find(field);
    ASSERT_NE(at, std::string::npos) << text;
    folder_.Write("config.json", std::string(text).erase(at, field.size()));
  }

  static bool ScalesFp8(const Checkpoint& checkpoint, const TensorInfo& tensor) {
    if (tensor.dtype != DType::kF8E8M0) return false;
    const std::string stem = tensor.name.substr(0, tensor.name.rfind('.'));
    const TensorInfo* weight = checkpoint.Find(stem + ".weight");
    return weight != nullptr && weight->dtype == DType::kF8E4M3;
  }

  // The scales times 17/16 to 31/16, one after the other.
  static std::vector<std::byte> WideScales(const TensorInfo& tensor) {
    std::vector<std::byte> wide(4 * tensor.data.size());
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      const float scale = DecodeE8m0(std::to_integer<uint8_t>(tensor.data[i])) *
                          static_cast<float>(17 + i * 4 % 15) / 16.0f;
      std::memcpy(wide.data() + 4 * i, &scale, 4);
    }
    return wide;
  }

  TempFolder folder_;
};

}  // namespace dsv4::testing
