#include "checkpoint/synth_fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/synth_model.h"
#include "tests/support/sha256.h"

namespace dsv4 {
namespace {

using ::testing::ElementsAre;
using testing::Sha256;

std::vector<std::byte> Fill(const SynthTensor& tensor, uint64_t first, size_t size) {
  std::vector<std::byte> bytes(size);
  FillSynthTensor(tensor, 1, first, bytes);
  return bytes;
}

const SynthTensor& Find(const SynthModel& model, std::string_view name) {
  return *std::find_if(model.tensors().begin(), model.tensors().end(),
                       [name](const SynthTensor& tensor) { return tensor.name == name; });
}

std::string HashOf(const SynthTensor& tensor) {
  Sha256 hash;
  std::vector<std::byte> piece;
  for (uint64_t done = 0; done < tensor.num_bytes(); done += piece.size()) {
    piece.resize(std::min<uint64_t>(1 << 20, tensor.num_bytes() - done));
    FillSynthTensor(tensor, 1, done, piece);
    hash.Update(piece);
  }
  return hash.Hex();
}

TEST(SynthFill, WordsAreThoseOfTheSpecification) {
  EXPECT_EQ(SynthHash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(SynthHash("embed.weight"), 0x9ac37bcac2dc8a00u);
  EXPECT_EQ(Mix64(1), 0x5692161d100b05e5u);
  EXPECT_EQ(SynthHash("layers.0.attn.wq_a.weight"), 0x643e5b463444eeeau);
  const uint64_t key = SynthKey("layers.0.attn.wq_a.weight", 1);
  EXPECT_EQ(key, 0xa4f8dc8420a720c9u);
  EXPECT_EQ(SynthWord(key, 0), 0x7d78e2ef7ff10991u);
  EXPECT_EQ(SynthWord(key, 1), 0x3ab9999d992332dbu);
  EXPECT_EQ(SynthWord(key, 2), 0x22030cc7b118b973u);
  EXPECT_EQ(SynthWord(key, 3), 0x1b64a5d4e595dfb2u);
  EXPECT_EQ(SynthKey("embed.weight", 1), 0xf1e1a69c1637ae02u);
  EXPECT_EQ(SynthWord(SynthKey("embed.weight", 1), 0), 0x5a7e8789a54c7f8au);
}

struct TensorHash {
  const char* preset;
  const char* name;
  std::vector<int64_t> shape;
  const char* sha256;
};

TEST(SynthFill, TensorsHaveTheHashesOfTheSpecification) {
  const std::vector<SynthSetting> small_vocabulary = {{"vocab_size", "1024"}};
  const auto tiny = SynthModel::Make("tiny-flash", small_vocabulary);
  const auto flash = SynthModel::Make("flash", {});
  ASSERT_TRUE(tiny && flash);
  const TensorHash hashes[] = {
      {"tiny",
       "layers.0.attn.wq_a.weight",
       {128, 256},
       "96dabf680b72baf9fea8087496ff7a2eb21ac05a02a32770b7b761f3b4eec018"},
      {"tiny",
       "layers.0.attn.wq_a.scale",
       {1, 2},
       "597c28c381ef1feee61f3e9677a628b4cbd41cfb2539c8938062e1df2a882d39"},
      {"tiny",
       "layers.0.ffn.experts.0.w1.weight",
       {128, 128},
       "57dc32aca3bf19bad4df1b6f45d3568ddc57f78a03d32e64417ce331368a4803"},
      {"tiny",
       "layers.0.ffn.experts.0.w1.scale",
       {128, 8},
       "fd21f081906c51b11b63c238a1d7edcacd24ec6ec1d0f60791ab221d73d3ef47"},
      {"tiny",
       "embed.weight",
       {1024, 256},
       "fc86b7a3437d789b3dbc0f2c19b712a21c0173e968462061761be27be779e37f"},
      {"tiny",
       "layers.0.attn.kv_norm.weight",
       {128},
       "649b0528af8b7030de10db02a236aa8bfff4684c8cd711cf007b6c7c74affb7e"},
      {"tiny",
       "layers.0.hc_attn_base",
       {24},
       "5dda00feb2650db1c03a266543db74973ad1240793bad558c92b1174e73699ca"},
      {"tiny",
       "layers.0.attn.attn_sink",
       {4},
       "f5ea8b4a2e313396f120d11688d46c1ab381e003dddcad9b1ee587545096d8ae"},
      {"tiny",
       "layers.0.ffn.gate.tid2eid",
       {1024, 2},
       "7f290c3ca9dc332b68f9dac5a9458262d237e318b50b1de7b217902270aa4ddb"},
      {"tiny",
       "layers.2.ffn.gate.bias",
       {8},
       "0593cae6ec1cad7b380d7f7eba90c1aa20e9ef235aaadc9c15b32c2085a25bbf"},
      {"flash",
       "layers.0.attn.wo_a.weight",
       {8192, 4096},
       "fafa858c2aaa744ce89740a8c8f2e5df210d178fd995bdbcf9bbd75548246f1c"},
      {"flash",
       "layers.0.attn.wo_a.scale",
       {64, 32},
       "458e06c10965de014a64c06c078cb488aa937f59eb1898c31cb01fb954cf41dd"},
      {"flash",
       "layers.0.hc_ffn_fn",
       {24, 16384},
       "1af085df4d8b61428746733d309d2f1e794ffe4767fa8b4dd9dd4698d4cc61c3"},
      {"flash",
       "layers.0.ffn.gate.tid2eid",
       {129280, 6},
       "6904be973856948918081ca33221d0134710d36b76514cd2df0838fa5ae1896d"},
      {"flash",
       "layers.2.attn.indexer.weights_proj.weight",
       {64, 4096},
       "0eae980afe217f3635c2f96060cb8016bf8539cbdb1deee134b03ffedda7f557"},
      {"flash",
       "layers.2.attn.compressor.wgate.weight",
       {1024, 4096},
       "eefe74c729464103b73ec4e6591a5726c46d745eccedf9ba668dff9a7db77fa0"},
      {"flash",
       "layers.42.ffn.experts.255.w2.weight",
       {4096, 1024},
       "b766e440fc6b4523212dd0931d4f5f8f3612748da96534a3b8b696c088dd765c"},
      {"flash",
       "layers.42.ffn.experts.255.w2.scale",
       {4096, 64},
       "2ff0331add7a5f68cec926b834c67c9f0bb8a486841d4a5f57dc031f7c037eaa"},
      {"flash",
       "mtp.0.e_proj.weight",
       {4096, 4096},
       "7458b730a7bac8281c220e7ace91b8f00c47affe41b1299f73bda8902cb4b204"},
      {"flash",
       "head.weight",
       {129280, 4096},
       "c43fc8864397cbcb49ca61fb32107fb7ce5ef92a79e0fbaeb94e625e54daead5"},
  };
  for (const TensorHash& expected : hashes) {
    SCOPED_TRACE(fmt::format("{} {}", expected.preset, expected.name));
    const SynthTensor& tensor =
        Find(std::string_view(expected.preset) == "tiny" ? *tiny : *flash, expected.name);
    EXPECT_EQ(tensor.shape, expected.shape);
    EXPECT_EQ(HashOf(tensor), expected.sha256);
  }
}

TEST(SynthFill, FirstElementsAreThoseOfTheSpecification) {
  const std::vector<SynthSetting> small_vocabulary = {{"vocab_size", "1024"}};
  const auto tiny = SynthModel::Make("tiny-flash", small_vocabulary);
  ASSERT_TRUE(tiny);
  const auto hex = [&tiny](std::string_view name, size_t bytes) {
    return fmt::format("{:02x}", fmt::join(Fill(Find(*tiny, name), 0, bytes), ""));
  };
  EXPECT_EQ(hex("layers.0.attn.wq_a.weight", 8), "7171eff0f36bf5f1");
  EXPECT_EQ(hex("layers.0.ffn.experts.0.w1.weight", 8), "eaf07b4a51c36073");
  EXPECT_EQ(hex("layers.0.ffn.experts.0.w1.scale", 8), "7b7c7a7a7c7b7b7b");
  EXPECT_EQ(hex("embed.weight", 4), "5c3de1bf");
  float base[3];
  const auto bytes = Fill(Find(*tiny, "layers.0.hc_attn_base"), 0, sizeof(base));
  std::memcpy(base, bytes.data(), sizeof(base));
  EXPECT_THAT(base, ElementsAre(0.44720458984375f, 0.547271728515625f, -0.046783447265625f));
}

// Every kind, at every start and length near the units' borders.
TEST(SynthFill, AnyRangeIsThatPartOfTheWhole) {
  const auto model = SynthModel::Make("tiny-pro", {});
  ASSERT_TRUE(model);
  for (const char* const name :
       {"layers.0.attn.wq_a.weight", "layers.0.attn.wq_a.scale", "layers.0.ffn.experts.0.w1.weight",
        "embed.weight", "layers.0.hc_attn_base", "layers.0.hc_attn_fn",
        "layers.0.ffn.gate.tid2eid"}) {
    SCOPED_TRACE(name);
    const SynthTensor& tensor = Find(*model, name);
    const size_t size = std::min<size_t>(tensor.num_bytes(), 96);
    const std::vector<std::byte> whole = Fill(tensor, 0, size);
    for (size_t first = 0; first < size; ++first) {
      for (size_t count = 0; first + count <= size; ++count) {
        const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(first);
        ASSERT_EQ(Fill(tensor, first, count),
                  std::vector(begin, begin + static_cast<std::ptrdiff_t>(count)))
            << first << " " << count;
      }
    }
  }
}

TEST(SynthFill, Fp8CodesFollowTheLanes) {
  // A long tensor meets every lane; its codes are compared with the rule, spelt out.
  SynthTensor tensor{"lanes", DType::kF8E4M3, {1 << 18}, SynthKind::kFp8};
  const auto bytes = Fill(tensor, 0, 1 << 18);
  const uint64_t key = SynthKey("lanes", 1);
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const uint64_t x = SynthWord(key, i / 4) >> 16 * (i % 4) & 65535;
    uint64_t m = x & 7;
    uint64_t t = x >> 4;
    int z = 0;
    while (z < 12 && (t & 1) == 0) t >>= 1, ++z;
    const uint64_t e = z <= 10 ? static_cast<uint64_t>(14 - z) : z == 11 ? 0 : 15;
    if (z == 12 && m == 7) m = 6;
    ASSERT_EQ(static_cast<uint64_t>(bytes[i]), (x >> 3 & 1) << 7 | e << 3 | m)
        << fmt::format("{:04x}", x);
  }
}

TEST(SynthFill, RowsOfExpertsAreDistinctEvenWhenAllAreChosen) {
  SynthTensor tensor{"all", DType::kI64, {50, 7}, SynthKind::kTokenExperts};
  tensor.experts = 7;
  const auto bytes = Fill(tensor, 0, tensor.num_bytes());
  for (size_t row = 0; row < 50; ++row) {
    int64_t experts[7];
    std::memcpy(experts, bytes.data() + row * sizeof(experts), sizeof(experts));
    std::sort(std::begin(experts), std::end(experts));
    EXPECT_THAT(experts, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  }
}

}  // namespace
}  // namespace dsv4
