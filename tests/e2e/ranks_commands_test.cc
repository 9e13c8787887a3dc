// A checkpoint converted for several ranks as a user meets it: convert, inspect, generate, trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/tiny_model.h"

namespace dsv4::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RanksCommandTest : public ::testing::Test {
 protected:
  RanksCommandTest() {
    const ProgramResult result =
        RunDsv4({"convert", "--hf-ckpt-path", original_.path(), "--save-path", ranks(),
                 "--n-experts", "8", "--model-parallel", "2"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }

  std::string ranks() const { return (folder_ / "mp2").string(); }
  fs::path file(int rank) const {
    return fs::path(ranks()) / fmt::format("model{}-mp2.safetensors", rank);
  }

  // Token ids of the completions.
  static std::vector<std::string> Generated(const std::string& model) {
    const ProgramResult result =
        RunDsv4({"generate", "--model", model, "--input-file", "-", "--max-new-tokens", "24",
                 "--temperature", "0", "--jsonl"},
                "hello\n\nA second, longer prompt\n");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> ids;
    std::string_view rest = result.out;
    for (size_t end; (end = rest.find('\n')) != std::string_view::npos;
         rest.remove_prefix(end + 1)) {
      const auto line = json::Parse(rest.substr(0, end));
      EXPECT_TRUE(line) << rest;
      ids.push_back(json::DumpCompact(*line->Find("token_ids")));
    }
    return ids;
  }
  json::Value Inspected(const std::string& model, std::vector<std::string> more = {}) const {
    std::vector<std::string> command = {"inspect", "--model", model, "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const ProgramResult result = RunDsv4(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::Parse(result.out).value();
  }

  TinyModel original_;
  TempFolder folder_;
};

TEST_F(RanksCommandTest, GeneratesTheTokensOfTheOriginal) {
  const std::vector<std::string> original = Generated(original_.path());
  ASSERT_EQ(original.size(), 2u);
  EXPECT_GT(original[0].size(), 24u);
  EXPECT_EQ(Generated(ranks()), original);
}

TEST_F(RanksCommandTest, TraceShowsTheLogitsOfTheOriginal) {
  const fs::path cases = folder_.Write(
      "cases.jsonl", R"({"id":"a","tokens":[3,1,4,1,5,9,2,6],"logits":"all","mtp":true})"
                     "\n");
  std::vector<std::string> outputs;
  for (const std::string& model : {original_.path(), ranks()}) {
    const fs::path out = folder_ / fmt::format("{}.safetensors", outputs.size());
    const ProgramResult result =
        RunDsv4({"trace", "--model", model, "--cases", cases.string(), "--out", out.string()});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    outputs.push_back(ReadFileText(out));
  }
  EXPECT_GT(outputs[0].size(), 8 * 512 * sizeof(float));
  EXPECT_TRUE(outputs[0] == outputs[1]);
}

TEST_F(RanksCommandTest, InspectCountsWhatIsJoined) {
  const json::Value original = Inspected(original_.path());
  EXPECT_EQ(original.Find("memory")->Find("joined_bytes")->to_int64(), 0);
  const json::Value report = Inspected(ranks(), {"--verify"});
  EXPECT_EQ(report.Find("ranks")->to_int64(), 2);
  EXPECT_EQ(report.Find("files")->to_int64(), 2);
  EXPECT_THAT(report.Find("unused")->items(), IsEmpty());
  EXPECT_THAT(report.Find("faults")->items(), IsEmpty());
  EXPECT_EQ(json::DumpCompact(*report.Find("parameters")),
            json::DumpCompact(*original.Find("parameters")));
  // The files repeat what every rank has; a running model has it once.
  int64_t file_bytes = 0, num_tensors = 0;
  for (const int rank : {0, 1}) {
    const auto checkpoint = Checkpoint::Open(file(rank));
    ASSERT_TRUE(checkpoint);
    file_bytes += static_cast<int64_t>(checkpoint->data_bytes());
    num_tensors += static_cast<int64_t>(checkpoint->tensors().size());
  }
  EXPECT_EQ(report.Find("tensors")->to_int64(), num_tensors);
  const json::Value& memory = *report.Find("memory");
  const int64_t weights = *memory.Find("weights_bytes")->to_int64();
  const int64_t joined = *memory.Find("joined_bytes")->to_int64();
  EXPECT_LT(weights, file_bytes);
  EXPECT_GT(joined, 2 * 2 * 512 * 256);  // embed and head
  EXPECT_LT(joined, weights);

  const ProgramResult text = RunDsv4({"inspect", "--model", ranks()});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("converted     for 2 ranks; "));
  EXPECT_THAT(text.out, HasSubstr(" weights are joined in memory\n"));
}

TEST_F(RanksCommandTest, MissingRankIsBadInput) {
  fs::remove(file(1));
  for (const char* const verb : {"inspect", "generate"}) {
    std::vector<std::string> command = {verb, "--model", ranks()};
    if (std::string_view(verb) == "generate") command.insert(command.end(), {"--input-file", "-"});
    const ProgramResult result = RunDsv4(command, "hello\n");
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.err, HasSubstr("1 of 2 shards missing: model1-mp2.safetensors"));
  }
}

TEST_F(RanksCommandTest, OneRankIsRefusedWithTheFolder) {
  const fs::path cases = folder_.Write("cases.jsonl", "");
  for (const char* const verb : {"inspect", "generate", "trace"}) {
    std::vector<std::string> command = {verb, "--model", file(1).string()};
    if (std::string_view(verb) == "generate") command.insert(command.end(), {"--input-file", "-"});
    if (std::string_view(verb) == "trace") {
      command.insert(command.end(), {"--cases", cases.string(), "--out", "none.safetensors"});
    }
    const ProgramResult result = RunDsv4(command, "hello\n");
    EXPECT_EQ(result.exit_code, 3) << verb;
    EXPECT_THAT(result.err, AllOf(HasSubstr("model1-mp2.safetensors: expected the folder"),
                                  HasSubstr("give the folder: " + ranks())));
  }
}

}  // namespace
}  // namespace dsv4::testing
