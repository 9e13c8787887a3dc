#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>

#include "tests/support/temp_folder.h"
#include "tests/support/time_limit.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadFileText;
using testing::TempFolder;

std::string FileOf(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += header;
  file.append(data_bytes, 'x');
  return file;
}

// {"NAME":{"dtype":"U8","shape":[n],"data_offsets":[begin,begin+n]}}
std::string OneTensor(std::string_view name, size_t bytes) {
  return fmt::format(R"({{"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[0,{}]}}}})", name, bytes,
                     bytes);
}

Error ErrorOf(const fs::path& path, std::optional<int> rank = {}) {
  const auto opened = Checkpoint::Open(path, {.rank = rank});
  return opened ? Error{ErrorKind::kFailed, "opened without an error"} : opened.error();
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TempFolder folder;
  const std::array<float, 3> floats = {1.5f, -0.0f, 3e38f};
  const std::array<uint8_t, 4> packed = {0x21, 0x43, 0x65, 0x87};
  const std::array<int64_t, 1> one = {-7};
  ASSERT_TRUE(WriteSafetensors(
      folder / "a.safetensors",
      std::array<TensorToWrite, 4>{
          TensorToWrite{"f", DType::kF32, {3}, std::as_bytes(std::span(floats))},
          TensorToWrite{"p\"\n\xc3\xa9", DType::kF4, {2, 4}, std::as_bytes(std::span(packed))},
          TensorToWrite{"none", DType::kBF16, {0, 5}, {}},
          TensorToWrite{"scalar", DType::kI64, {}, std::as_bytes(std::span(one))}}));
  const auto checkpoint = Checkpoint::Open(folder / "a.safetensors");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->tensors().size(), 4u);
  const TensorInfo* const f = checkpoint->Find("f");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->dtype, DType::kF32);
  EXPECT_THAT(f->shape, ElementsAre(3));
  EXPECT_EQ(std::memcmp(f->data.data(), floats.data(), sizeof(floats)), 0);
  const TensorInfo* const p = checkpoint->Find("p\"\n\xc3\xa9");
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->TypeText(), "F4 [2, 4]");
  EXPECT_EQ(std::memcmp(p->data.data(), packed.data(), sizeof(packed)), 0);
  EXPECT_EQ(checkpoint->Find("none")->num_elements(), 0);
  EXPECT_EQ(checkpoint->Find("scalar")->num_elements(), 1);
  EXPECT_EQ(checkpoint->Find("F"), nullptr);
  EXPECT_EQ(checkpoint->data_bytes(), 24u);
  EXPECT_EQ(checkpoint->folder(), folder.path());
  EXPECT_EQ(ReadFileText(folder / "a.safetensors").size() % 8, 0u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "a temporary remains";
}

TEST(Safetensors, TwoTensorsOfOneNameAreNotWritten) {
  const TempFolder folder;
  const std::array<TensorToWrite, 2> twice = {TensorToWrite{"a", DType::kU8, {0}, {}},
                                              TensorToWrite{"a", DType::kU8, {0}, {}}};
  const Status status = WriteSafetensors(folder / "a.safetensors", twice);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("tensor a stands twice"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

struct BadHeader {
  const char* what;
  std::string header;
  size_t data_bytes;
  std::vector<std::string> message;
};

std::string Tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape,
                     offsets);
}

const std::vector<BadHeader>& BadHeaders() {
  static const std::vector<BadHeader> cases = {
      {"not JSON", "{\"t\":", 0, {"not JSON", "byte"}},
      {"no JSON object", "[]", 0, {"not JSON", "first byte"}},
      {"byte order mark", "\xEF\xBB\xBF{}", 0, {"not JSON"}},
      {"two values", "{} {}", 0, {"not JSON"}},
      {"zero byte behind", std::string("{}\0x ", 5), 0, {"not JSON", "zero byte"}},
      {"invalid UTF-8", "{\"\xff\":1}", 0, {"not JSON"}},
      {"tensor is a number", R"({"t":1})", 0, {"tensor t", "expected an object", "a number"}},
      {"dtype is a number", R"({"t":{"dtype":1}})", 0, {"tensor t: dtype", "a string"}},
      {"unknown dtype", Tensor("F64", "[1]", "[0,8]"), 8, {"tensor t", "F8_E4M3", "\"F64\""}},
      {"unknown key", R"({"t":{"type":"U8"}})", 0, {"tensor t", "data_offsets", "\"type\""}},
      {"dtype missing", R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1, {"t: dtype is missing"}},
      {"shape missing", R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1, {"t: shape is missing"}},
      {"offsets missing", R"({"t":{"dtype":"U8","shape":[1]}})", 1, {"data_offsets is missing"}},
      {"shape twice",
       R"({"t":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})",
       1,
       {"tensor t", "shape stands twice"}},
      {"negative extent", Tensor("U8", "[-1]", "[0,1]"), 1, {"tensor t", "shape", "found -1"}},
      {"fraction", Tensor("U8", "[1.5]", "[0,1]"), 1, {"tensor t", "shape", "found 1.5"}},
      {"huge extent",
       Tensor("U8", "[9223372036854775808]", "[0,1]"),
       1,
       {"tensor t", "shape", "found 9223372036854775808"}},
      {"nested shape", Tensor("U8", "[[1]]", "[0,1]"), 1, {"tensor t: shape", "an array"}},
      {"product overflows",
       Tensor("F32", "[4294967296,4294967296]", "[0,0]"),
       0,
       {"tensor t", "4294967296, 4294967296", "overflows"}},
      {"product overflows behind 0",
       Tensor("F32", "[0,4294967296,4294967296]", "[0,0]"),
       0,
       {"tensor t", "overflows"}},
      {"half a byte", Tensor("F4", "[3]", "[0,2]"), 2, {"tensor t", "F4", "whole number of bytes"}},
      {"shape against bytes",
       Tensor("BF16", "[2,3]", "[0,11]"),
       11,
       {"tensor t", "BF16 [2, 3] takes 12 bytes", "[0, 11] hold 11"}},
      {"one offset", Tensor("U8", "[1]", "[0]"), 1, {"tensor t", "two integers"}},
      {"three offsets", Tensor("U8", "[1]", "[0,1,2]"), 1, {"tensor t", "two integers"}},
      {"negative offset", Tensor("U8", "[1]", "[-1,0]"), 1, {"tensor t: data_offsets", "found -1"}},
      {"backward offsets", Tensor("U8", "[1]", "[1,0]"), 1, {"tensor t", "begin 1", "end 0"}},
      {"out of range",
       Tensor("U8", "[5]", "[0,5]"),
       4,
       {"tensor t", "[0, 5]", "beyond the 4 bytes", "truncated"}},
      {"hole before", Tensor("U8", "[3]", "[1,4]"), 4, {"tensor t", "hole", "0 to 1"}},
      {"bytes behind", Tensor("U8", "[3]", "[0,3]"), 4, {"end at byte 3", "holds 4"}},
      {"hole between",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
           "b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3,
       {"tensor b", "hole", "1 to 2"}},
      {"overlap",
       R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},
           "a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       3,
       {"tensor b", "[1, 3]", "overlap", "a [0, 2]"}},
      {"name twice",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
           "a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2,
       {"tensor a stands twice"}},
      {"name twice by an escape",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
           "\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2,
       {"tensor a stands twice"}},
      {"lone surrogate",
       R"({"a\ude00":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0,
       {"lone surrogate"}},
      {"metadata is text", R"({"__metadata__":"pt"})", 0, {"__metadata__", "an object"}},
      {"metadata holds a number", R"({"__metadata__":{"a":1}})", 0, {"__metadata__", "strings"}},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, {"__metadata__", "twice"}},
  };
  return cases;
}

TEST(Safetensors, EveryBadHeaderIsRefusedByName) {
  const TempFolder folder;
  for (const BadHeader& bad : BadHeaders()) {
    SCOPED_TRACE(bad.what);
    const fs::path path = folder.Write("bad.safetensors", FileOf(bad.header, bad.data_bytes));
    const Error error = ErrorOf(path);
    EXPECT_EQ(error.kind, ErrorKind::kBadInput);
    EXPECT_THAT(error.message, HasSubstr("bad.safetensors"));
    for (const std::string& part : bad.message) EXPECT_THAT(error.message, HasSubstr(part));
  }
}

TEST(Safetensors, DeepNestingIsRefusedWithoutRecursion) {
  const std::string deep = "{\"t\":" + std::string(1000000, '[');
  const auto parsed = Checkpoint::ParseHeader(std::as_bytes(std::span(deep)), 0);
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, HasSubstr("expected an object, found an array"));
}

TEST(Safetensors, HeaderLengthIsHeldAgainstTheFile) {
  const TempFolder folder;
  EXPECT_THAT(ErrorOf(folder.Write("a.safetensors", "")).message,
              AllOf(HasSubstr("a.safetensors"), HasSubstr("at least 8 bytes, found 0")));
  EXPECT_THAT(ErrorOf(folder.Write("a.safetensors", "1234567")).message, HasSubstr("found 7"));
  std::string file = FileOf("{}", 0);
  file[0] = 3;
  EXPECT_THAT(ErrorOf(folder.Write("a.safetensors", file)).message,
              HasSubstr("header length 3: expected 2 to 2 in a file of 10 bytes"));
  file[0] = 1;
  EXPECT_THAT(ErrorOf(folder.Write("a.safetensors", file)).message, HasSubstr("header length 1"));
  EXPECT_THAT(ErrorOf(folder.Write("a.safetensors", std::string(8, '\xff') + "{}")).message,
              HasSubstr("header length 18446744073709551615"));
}

TEST(Safetensors, TruncatedFileIsRefused) {
  const TempFolder folder;
  std::string file = FileOf(OneTensor("t", 100), 100);
  file.pop_back();
  const Error error = ErrorOf(folder.Write("a.safetensors", file));
  EXPECT_THAT(error.message, AllOf(HasSubstr("a.safetensors: tensor t"), HasSubstr("[0, 100]"),
                                   HasSubstr("99 bytes"), HasSubstr("truncated")));
}

class Sharded : public ::testing::Test {
 protected:
  void WriteIndex(std::string_view weight_map) {
    folder_.Write("model.safetensors.index.json",
                  fmt::format(R"({{"metadata":{{"total_size":2}},"weight_map":{}}})", weight_map));
  }
  Error OpenError() { return ErrorOf(folder_.path()); }

  TempFolder folder_;
};

TEST_F(Sharded, OpensInFileOrder) {
  folder_.Write("one.safetensors", FileOf(OneTensor("a", 1), 1));
  folder_.Write("two.safetensors", FileOf(OneTensor("b", 2), 2));
  WriteIndex(R"({"b":"two.safetensors","a":"one.safetensors"})");
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->files().size(), 2u);
  EXPECT_EQ(checkpoint->files()[checkpoint->Find("b")->file].filename(), "two.safetensors");
  EXPECT_EQ(checkpoint->Find("a")->data.size(), 1u);
  EXPECT_EQ(checkpoint->data_bytes(), 3u);
}

TEST_F(Sharded, LinksIntoACacheAreFollowed) {
  const TempFolder cache;
  const fs::path blob = cache.Write("blobs/0123", FileOf(OneTensor("a", 1), 1));
  fs::create_symlink(blob, folder_ / "one.safetensors");
  WriteIndex(R"({"a":"one.safetensors"})");
  EXPECT_TRUE(Checkpoint::Open(folder_.path()));
}

TEST_F(Sharded, AllMissingShardsAreNamedAtOnce) {
  folder_.Write("two.safetensors", FileOf(OneTensor("b", 2), 2));
  WriteIndex(R"({"a":"one.safetensors","b":"two.safetensors","c":"three.safetensors"})");
  const Error error = OpenError();
  EXPECT_EQ(error.kind, ErrorKind::kBadInput);
  EXPECT_THAT(error.message,
              HasSubstr("2 of 3 shards missing: one.safetensors, three.safetensors"));
}

TEST_F(Sharded, IndexEntriesStayInTheFolder) {
  for (const char* name :
       {"../a.safetensors", "/etc/passwd", "x/../../a", "..", "", ".", "a/", "a\\u0000b"}) {
    SCOPED_TRACE(name);
    WriteIndex(fmt::format(R"({{"tensor.name":"{}"}})", name));
    const Error error = OpenError();
    EXPECT_EQ(error.kind, ErrorKind::kBadInput);
    EXPECT_THAT(error.message,
                AllOf(HasSubstr("index.json"), HasSubstr("tensor.name"),
                      ::testing::AnyOf(HasSubstr("points outside"), HasSubstr("no file name"))));
  }
}

TEST_F(Sharded, BadIndexIsRefused) {
  for (const char* map : {"[]", "1", "{\"a\":1}", "{\"a\":{}}", "{\"a\":[]}", "{}", "null",
                          "{\"a\":\"f\",\"a\":\"f\"}"}) {
    SCOPED_TRACE(map);
    WriteIndex(map);
    EXPECT_THAT(OpenError().message, AllOf(HasSubstr("index.json"), HasSubstr("weight_map")));
  }
  folder_.Write("model.safetensors.index.json", "{\"metadata\":{\"weight_map\":[{}]}}");
  EXPECT_THAT(OpenError().message, HasSubstr("weight_map is missing"));
  folder_.Write("model.safetensors.index.json", R"({"weight_map":{"a\udc00":"f"}})");
  EXPECT_THAT(OpenError().message, HasSubstr("lone surrogate"));
  folder_.Write("model.safetensors.index.json", "{");
  EXPECT_THAT(OpenError().message, HasSubstr("not JSON"));
  folder_.Write("model.safetensors.index.json", "7");
  EXPECT_THAT(OpenError().message, HasSubstr("expected an object"));
}

TEST_F(Sharded, TensorTheIndexNamesMustBeInItsShard) {
  folder_.Write("one.safetensors", FileOf(OneTensor("a", 1), 1));
  WriteIndex(R"({"a":"one.safetensors","b":"one.safetensors"})");
  EXPECT_THAT(OpenError().message, HasSubstr("1 tensors are not in the file they should be in: b "
                                             "(one.safetensors)"));
}

TEST_F(Sharded, TensorInAnotherShardThanTheIndexSays) {
  folder_.Write("one.safetensors", FileOf(OneTensor("a", 1), 1));
  folder_.Write("two.safetensors", FileOf(OneTensor("b", 2), 2));
  WriteIndex(R"({"a":"two.safetensors","b":"one.safetensors"})");
  EXPECT_THAT(OpenError().message,
              HasSubstr("tensor a: expected in two.safetensors, found in one.safetensors"));
}

TEST_F(Sharded, OneNameInTwoShardsIsRefused) {
  folder_.Write("one.safetensors", FileOf(OneTensor("a", 1), 1));
  folder_.Write("two.safetensors", FileOf(OneTensor("a", 2), 2));
  WriteIndex(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_THAT(OpenError().message,
              AllOf(HasSubstr("two.safetensors: tensor a stands in one.safetensors too")));
}

TEST_F(Sharded, NothingToOpenSaysWhatIsThere) {
  EXPECT_THAT(OpenError().message, HasSubstr("found nothing"));
  folder_.Write("pytorch_model.bin", "x");
  EXPECT_THAT(OpenError().message, AllOf(HasSubstr("model.safetensors.index.json"),
                                         HasSubstr("found pytorch_model.bin")));
  EXPECT_THAT(ErrorOf(folder_ / "absent").message,
              HasSubstr("absent: cannot be opened: No such file"));
}

TEST_F(Sharded, ConvertedFilesOpenByRank) {
  folder_.Write("model0-mp2.safetensors", FileOf(OneTensor("a", 1), 1));
  folder_.Write("model1-mp2.safetensors", FileOf(OneTensor("a", 2), 2));
  for (const int rank : {0, 1}) {
    const auto checkpoint = Checkpoint::Open(folder_.path(), {.rank = rank});
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->Find("a")->data.size(), static_cast<size_t>(rank + 1));
    EXPECT_EQ(checkpoint->rank(), rank);
    EXPECT_EQ(checkpoint->converted_world(), 2);
  }
  EXPECT_THAT(ErrorOf(folder_.path(), 2).message, HasSubstr("rank 2"));
  EXPECT_THAT(ErrorOf(folder_.path(), -1).message, HasSubstr("rank -1"));
  fs::remove(folder_ / "model0-mp2.safetensors");
  EXPECT_THAT(ErrorOf(folder_.path(), 0).message, HasSubstr("missing: model0-mp2.safetensors"));
  folder_.Write("model0-mp1.safetensors", FileOf(OneTensor("a", 1), 1));
  EXPECT_THAT(ErrorOf(folder_.path()).message, HasSubstr("-mp1 and -mp2"));
}

TEST_F(Sharded, AllMissingRanksAreNamedAtOnce) {
  folder_.Write("model2-mp4.safetensors", FileOf(OneTensor("a", 1), 1));
  EXPECT_THAT(OpenError().message,
              HasSubstr("3 of 4 shards missing: model0-mp4.safetensors, model1-mp4.safetensors, "
                        "model3-mp4.safetensors"));
}

TEST_F(Sharded, NoConversionIsForSoManyRanks) {
  folder_.Write("model0-mp2000000000.safetensors", FileOf(OneTensor("a", 1), 1));
  EXPECT_THAT(OpenError().message, HasSubstr("found model0-mp2000000000.safetensors"));
}

// 46 shards and 69187 tensors, as the published Flash; the data are holes of sparse files.
TEST_F(Sharded, OpensTheTensorCountOfFlashAtOnce) {
  constexpr int kShards = 46;
  constexpr int kTensors = 69187;
  constexpr int64_t kBytes = 1 << 20;
  std::string map;
  int made = 0;
  for (int shard = 0; shard < kShards; ++shard) {
    const int count = kTensors / kShards + (shard < kTensors % kShards ? 1 : 0);
    const std::string file = fmt::format("model-{:05}-of-00046.safetensors", shard + 1);
    std::string header;
    for (int i = 0; i < count; ++i, ++made) {
      const std::string name = fmt::format("layers.{}.ffn.experts.{}.w1.weight", shard, made);
      header += fmt::format(R"({}"{}":{{"dtype":"I8","shape":[1024,1024],"data_offsets":[{},{}]}})",
                            i == 0 ? "{" : ",", name, i * kBytes, (i + 1) * kBytes);
      map += fmt::format(R"({}"{}":"{}")", map.empty() ? "{" : ",", name, file);
    }
    folder_.Write(file, FileOf(header + "}", 0));
    fs::resize_file(folder_ / file, 8 + header.size() + 1 + static_cast<size_t>(count * kBytes));
  }
  WriteIndex(map + "}");
  const auto start = std::chrono::steady_clock::now();
  const auto checkpoint = Checkpoint::Open(folder_.path());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), static_cast<size_t>(kTensors));
  RecordProperty("open_ms", static_cast<int>(seconds.count() * 1000));
  EXPECT_LT(seconds, test::Within(1));
}

TEST(Safetensors, PackedFp4IsKnownByBothItsForms) {
  const auto tensor = [](DType dtype, std::vector<int64_t> shape) {
    return TensorInfo{"t", dtype, std::move(shape), {}, 0};
  };
  EXPECT_TRUE(IsPackedFp4(tensor(DType::kF4, {4, 64}), 4, 64));
  EXPECT_TRUE(IsPackedFp4(tensor(DType::kI8, {4, 32}), 4, 64));
  EXPECT_FALSE(IsPackedFp4(tensor(DType::kI8, {4, 64}), 4, 64));
  EXPECT_FALSE(IsPackedFp4(tensor(DType::kF4, {4, 32}), 4, 64));
  EXPECT_FALSE(IsPackedFp4(tensor(DType::kU8, {4, 32}), 4, 64));
  EXPECT_FALSE(IsPackedFp4(tensor(DType::kI8, {4}), 4, 64));
}

TEST(Safetensors, GoldenCheckpointOpens) {
  const auto checkpoint =
      Checkpoint::Open(fs::path(DSV4_TEST_DATA) / "model" / "flash-tiny" / "checkpoint");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().size(), 506u);
  EXPECT_EQ(checkpoint->Find("layers.0.ffn.experts.0.w1.weight")->TypeText(), "I8 [128, 128]");
}

}  // namespace
}  // namespace dsv4
