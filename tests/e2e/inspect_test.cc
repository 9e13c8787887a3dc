// `dsv4 inspect` on golden checkpoints and on copies with planted faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <map>

#include "base/json.h"
#include "checkpoint/header.h"
#include "checkpoint/safetensors.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/time_limit.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProgramResult;
using testing::TempFolder;

fs::path Golden(const std::string& variant) {
  return fs::path(DSV4_TEST_DATA) / "model" / variant / "checkpoint";
}

ProgramResult Inspect(const fs::path& model, std::vector<std::string> options = {}) {
  std::vector<std::string> command = {DSV4_BINARY, "inspect", "--model", model.string()};
  command.insert(command.end(), options.begin(), options.end());
  return testing::RunProgram(std::move(command));
}

struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};
using Tensors = std::map<std::string, Tensor>;

Tensors Load(const std::string& variant) {
  Tensors tensors;
  const Checkpoint checkpoint = Checkpoint::Open(Golden(variant)).value();
  for (const TensorInfo& info : checkpoint.tensors()) {
    tensors[info.name] = {info.dtype, info.shape, {info.data.begin(), info.data.end()}};
  }
  return tensors;
}

void Save(const TempFolder& folder, const std::string& variant, const Tensors& tensors,
          const std::string& file = "model.safetensors") {
  fs::copy_file(Golden(variant) / "config.json", folder / "config.json",
                fs::copy_options::overwrite_existing);
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, tensor.dtype, tensor.shape, tensor.data});
  }
  const Status written = WriteSafetensors(folder / file, list);
  ASSERT_TRUE(written) << written.error().message;
}

TEST(Inspect, TableDescribesTheModel) {
  const ProgramResult result = Inspect(Golden("flash-tiny"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(
      result.out,
      AllOf(
          HasSubstr("layers        5: 2 window only, 2 of ratio 4, 1 of ratio 128; 2 hash-routed; "
                    "1 MTP\n"),
          HasSubstr("tensors       506 in 2 files, 8.0 MB\n"),
          HasSubstr("  F8_E8M0         196 tensors   147.6 kB\n"),
          HasSubstr("KV cache      136 B per token, 142.6 MB at 1048576 tokens\n"),
          HasSubstr("verdict       fits in memory\n")));
}

TEST(Inspect, BlocksAreOfScaledFormatsAlone) {
  EXPECT_THAT(Inspect(Golden("flash-tiny")).out,
              HasSubstr("formats       fp8 linears, fp4 experts, blocks 128 x 128\n"));
  EXPECT_THAT(Inspect(Golden("bf16-tiny")).out,
              HasSubstr("formats       bf16 linears, bf16 experts\n"));
}

TEST(Inspect, JsonIsOneObjectWithTheDocumentedKeys) {
  const ProgramResult result = Inspect(Golden("pro-tiny"), {"--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json::Value report = json::Parse(result.out).value();
  std::vector<std::string> keys;
  for (const auto& [key, value] : report.members()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre("model", "config", "parameters", "tensors", "files",
                                           "ranks", "types", "memory", "unused"));
  EXPECT_EQ(report.Find("tensors")->to_int64(), 408);
  EXPECT_EQ(report.Find("parameters")->Find("total")->to_int64(), 2968717);
  EXPECT_EQ(report.Find("config")->Find("hidden_size")->to_int64(), 128);
  EXPECT_EQ(report.Find("config")->Find("rms_norm_eps")->number_text(), "1e-06");
  const json::Value& memory = *report.Find("memory");
  EXPECT_EQ(memory.Find("verdict")->as_string(), "fits in memory");
  EXPECT_EQ(*memory.Find("kv_bytes_at_1m_tokens")->to_double(),
            *memory.Find("kv_bytes_per_token")->to_double() * (1 << 20));
}

TEST(Inspect, VerifyPassesEveryGoldenCheckpoint) {
  for (const char* variant :
       {"flash-tiny", "pro-tiny", "bf16-tiny", "fp8exp-tiny", "one-window", "one-csa", "one-hca"}) {
    const ProgramResult result = Inspect(Golden(variant), {"--verify"});
    EXPECT_EQ(result.exit_code, 0) << variant << result.err;
    EXPECT_THAT(result.out, HasSubstr("every value is finite and every table in range"));
  }
}

TEST(Inspect, VerifyNamesEveryTensorWithBadValuesAndCountsThem) {
  const TempFolder folder;
  Tensors tensors = Load("fp8exp-tiny");
  const auto plant = [&](const std::string& name, size_t offset, std::vector<uint8_t> bytes) {
    std::memcpy(tensors.at(name).data.data() + offset, bytes.data(), bytes.size());
  };
  plant("embed.weight", 10, {0xC0, 0x7F, 0x80, 0xFF});               // bf16 NaN, -infinity
  plant("hc_head_fn", 8, {0, 0, 0x80, 0x7F});                        // infinity
  plant("layers.0.attn.wq_a.weight", 3, {0x7F, 0xFF});               // two E4M3 NaN
  plant("layers.1.attn.wo_a.scale", 1, {0xFF});                      // E8M0 NaN
  plant("layers.0.ffn.gate.tid2eid", 16, {4, 0, 0, 0, 0, 0, 0, 0});  // of 4 experts
  Save(folder, "fp8exp-tiny", tensors);

  const ProgramResult text = Inspect(folder.path(), {"--verify"});
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_THAT(
      text.out,
      AllOf(HasSubstr("embed.weight (model.safetensors): 1 NaN, 1 infinite\n"),
            HasSubstr("hc_head_fn (model.safetensors): 1 infinite\n"),
            HasSubstr("layers.0.attn.wq_a.weight (model.safetensors): 2 NaN\n"),
            HasSubstr("layers.1.attn.wo_a.scale (model.safetensors): 1 NaN scales\n"),
            HasSubstr("layers.0.ffn.gate.tid2eid (model.safetensors): 1 experts out of range\n")));

  const ProgramResult object = Inspect(folder.path(), {"--verify", "--json"});
  EXPECT_EQ(object.exit_code, 3);
  const json::Value report = json::Parse(object.out).value();
  EXPECT_EQ(report.Find("faults")->items().size(), 5u);
}

TEST(Inspect, VerifyFaultsAloneEndWithCode3) {
  const TempFolder folder;
  Tensors tensors = Load("one-window");
  tensors.at("layers.0.attn.wq_a.scale").data[0] = std::byte{0xFF};
  Save(folder, "one-window", tensors);
  EXPECT_EQ(Inspect(folder.path()).exit_code, 0);
  const ProgramResult result = Inspect(folder.path(), {"--verify"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("1 tensors hold values that no weight may have, the first is "
                                    "layers.0.attn.wq_a.scale"));
}

TEST(Inspect, UnusedTensorsAreWarnings) {
  const TempFolder folder;
  Tensors tensors = Load("one-window");
  tensors["zebra"] = {DType::kU8, {1}, {std::byte{0}}};
  Save(folder, "one-window", tensors);
  const ProgramResult result = Inspect(folder.path());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "dsv4: warning: tensor zebra is not used\n");
}

TEST(Inspect, MissingTensorIsBadInput) {
  const TempFolder folder;
  Tensors tensors = Load("one-window");
  tensors.erase("norm.weight");
  Save(folder, "one-window", tensors);
  const ProgramResult result = Inspect(folder.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("missing: norm.weight"));
  EXPECT_THAT(result.out, HasSubstr("\nverdict       not loadable: "));
  EXPECT_THAT(result.out, HasSubstr("missing: norm.weight\n"));
  const json::Value report = json::Parse(Inspect(folder.path(), {"--json"}).out).value();
  EXPECT_THAT(report.Find("error")->as_string(), HasSubstr("missing: norm.weight"));
}

TEST(Inspect, RanksThatDoNotFitTogetherAreBadInput) {
  const TempFolder folder;
  const Tensors tensors = Load("one-window");
  Save(folder, "one-window", tensors, "model0-mp2.safetensors");
  Save(folder, "one-window", tensors, "model1-mp2.safetensors");
  const ProgramResult result = Inspect(folder.path());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("model1-mp2.safetensors: tensor layers.0.ffn.experts."));
  EXPECT_THAT(result.err, HasSubstr("stands in model0-mp2.safetensors too"));
}

TEST(Inspect, NoFolderIsBadInputAndNoModelIsUsage) {
  EXPECT_EQ(Inspect("/no/such/folder").exit_code, 3);
  EXPECT_EQ(testing::RunProgram({DSV4_BINARY, "inspect"}).exit_code, 2);
}

// 17 GB of weights in a file with holes: whoever read them would need far longer.
TEST(Inspect, ReadsHeadersOnly) {
  constexpr int64_t kVocabulary = 1 << 24;
  const TempFolder folder;
  std::vector<TensorInfo> infos;
  uint64_t data_bytes = 0;
  for (auto& [name, tensor] : Load("one-window")) {
    TensorInfo info;
    info.name = name;
    info.dtype = tensor.dtype;
    info.shape = tensor.shape;
    if (name == "embed.weight" || name == "head.weight") info.shape[0] = kVocabulary;
    data_bytes += static_cast<uint64_t>(info.num_elements() * BitsPerElement(info.dtype) / 8);
    infos.push_back(std::move(info));
  }
  const std::string header = SafetensorsHeader(infos);
  const fs::path file = folder.Write("model.safetensors", header);
  fs::resize_file(file, header.size() + data_bytes);
  std::string config = testing::ReadFileText(Golden("one-window") / "config.json");
  const std::string field = "\"vocab_size\": ";
  const size_t place = config.find(field) + field.size();
  config.replace(place, config.find(',', place) - place, std::to_string(kVocabulary));
  folder.Write("config.json", config);

  const auto start = std::chrono::steady_clock::now();
  const ProgramResult result = Inspect(folder.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(", 17.2 GB\n"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, test::Within(2));
}

}  // namespace
}  // namespace dsv4
