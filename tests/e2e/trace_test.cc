// dsv4 trace end to end: cases in, tensors out, and what wrong cases are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"

namespace dsv4 {
namespace {

using dsv4::testing::ProgramResult;
using dsv4::testing::RunProgram;
using dsv4::testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kModel = std::string(DSV4_TEST_DATA) + "/model/flash-tiny/checkpoint";

class TraceTest : public ::testing::Test {
 protected:
  ProgramResult Trace(const std::string& cases, const std::string& model = kModel) {
    folder_.Write("cases.jsonl", cases);
    return RunProgram({DSV4_BINARY, "trace", "--model", model, "--threads", "2", "--cases",
                       (folder_ / "cases.jsonl").string(), "--out", Out().string()});
  }
  std::filesystem::path Out() const { return folder_ / "out.safetensors"; }
  Checkpoint Answer() {
    Result<Checkpoint> file = Checkpoint::Open(Out());
    EXPECT_TRUE(file) << (file ? "" : file.error().message);
    return std::move(*file);
  }
  static std::string Bytes(const Checkpoint& file, const std::string& name) {
    const TensorInfo* tensor = file.Find(name);
    EXPECT_NE(tensor, nullptr) << name;
    if (tensor == nullptr) return {};
    return {reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size()};
  }

  TempFolder folder_;
};

TEST_F(TraceTest, ListsTheTapsOfTheModel) {
  const ProgramResult result = RunProgram({DSV4_BINARY, "trace", "--model", kModel, "--list-taps"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("L0.q\nL0.kv\nL0.o\n"));
  EXPECT_THAT(result.out, HasSubstr("L2.index_sel\n"));
  EXPECT_THAT(result.out, HasSubstr("M0.H\n"));
}

TEST_F(TraceTest, WritesLogitsAndTapsOfEveryKindOfCase) {
  const ProgramResult result = Trace(
      R"({"id":"a","tokens":[1,2,3,4,5,6,7,8,9],"logits":"all","mtp":true,"taps":["L0.H","L2.entries"]}
{"id":"b","tokens":[1,2,3,4,5,6,7,8,9],"chunks":[2,5],"logits":[8,0]}

{"id":"c","batch":[[1,2,3],[4,5,6,7,8]],"prefill":2,"logits":"last"}
{"id":"d","tokens":[1,2,3],"block":0}
{"id":"e","tokens":[1,2,3],"block":1,"h":"FILE#TENSOR"}
)");
  // The last case names a file that is not there: nothing is written.
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("case e"));
  EXPECT_FALSE(std::filesystem::exists(Out()));

  const ProgramResult good = Trace(
      R"({"id":"a","tokens":[1,2,3,4,5,6,7,8,9],"logits":"all","mtp":true,"taps":["L0.H","L2.entries"]}
{"id":"b","tokens":[1,2,3,4,5,6,7,8,9],"chunks":[2,5],"logits":[8,0]}
{"id":"c","batch":[[1,2,3],[4,5,6,7,8]],"prefill":2,"logits":"last"}
{"id":"d","tokens":[1,2,3],"block":0}
)");
  ASSERT_EQ(good.exit_code, 0) << good.err;
  const Checkpoint answer = Answer();
  EXPECT_THAT(answer.Find("a/logits")->shape, ElementsAre(9, 512));
  EXPECT_THAT(answer.Find("a/mtp_logits")->shape, ElementsAre(8, 512));
  EXPECT_THAT(answer.Find("a/L0.H")->shape, ElementsAre(9, 4, 256));
  EXPECT_THAT(answer.Find("a/L2.entries")->shape, ElementsAre(2, 128));
  EXPECT_THAT(answer.Find("c/0/logits")->shape, ElementsAre(1, 512));
  EXPECT_THAT(answer.Find("c/1/logits")->shape, ElementsAre(1, 512));
  EXPECT_THAT(answer.Find("d/L0.H")->shape, ElementsAre(3, 4, 256));
  // Rows in position order, equal to those of the whole.
  const std::string all = Bytes(answer, "a/logits");
  const size_t row = 512 * sizeof(float);
  EXPECT_EQ(Bytes(answer, "b/logits"), all.substr(0, row) + all.substr(8 * row, row));
  // A block alone on the embedding is the first layer of the whole.
  EXPECT_EQ(Bytes(answer, "d/L0.H"), Bytes(answer, "a/L0.H").substr(0, 3 * 4 * 256 * 2));
}

// As --help says: of the 9 tokens the last row of mtp_logits is that of position 7.
TEST_F(TraceTest, LogitsSelectsTheRowsOfMtpLogitsToo) {
  const std::string sequence = R"("tokens":[1,2,3,4,5,6,7,8,9],"mtp":true,"logits":)";
  const ProgramResult result =
      Trace(R"({"id":"all",)" + sequence + "\"all\"}\n" + R"({"id":"last",)" + sequence +
            "\"last\"}\n" + R"({"id":"some",)" + sequence + "[0,3,8]}\n");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Checkpoint answer = Answer();
  const std::string all = Bytes(answer, "all/mtp_logits");
  const size_t row = 512 * sizeof(float);
  ASSERT_EQ(all.size(), 8 * row);
  EXPECT_EQ(Bytes(answer, "last/mtp_logits"), all.substr(7 * row));
  EXPECT_EQ(Bytes(answer, "some/mtp_logits"), all.substr(0, row) + all.substr(3 * row, row));
  EXPECT_THAT(RunProgram({DSV4_BINARY, "trace", "--help"}).out,
              HasSubstr("with \"mtp\"\nthose of ID/mtp_logits too"));
}

TEST_F(TraceTest, AGivenHiddenStateContinuesAsTheWholeModelDoes) {
  ASSERT_EQ(Trace(R"({"id":"a","tokens":[7,8,9,10,11],"taps":["L0.H","L1.H"]})").exit_code, 0);
  std::filesystem::rename(Out(), folder_ / "first.safetensors");
  const ProgramResult result =
      Trace(R"({"id":"b","tokens":[7,8,9,10,11],"block":1,"h":")" +
            (folder_ / "first.safetensors").string() + R"(#a/L0.H","taps":["L1.H"]})");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  Result<Checkpoint> first = Checkpoint::Open(folder_ / "first.safetensors");
  ASSERT_TRUE(first);
  EXPECT_EQ(Bytes(Answer(), "b/L1.H"), Bytes(*first, "a/L1.H"));
}

TEST_F(TraceTest, WrongCasesAreNamedByLineAndField) {
  const std::pair<const char*, const char*> cases[] = {
      {" \n", "cases.jsonl: holds no case"},
      {"{", "line 1"},
      {"[]", "expected an object"},
      {R"({"tokens":[1]})", "id: expected a string, found none"},
      {R"({"id":"a"})", "neither"},
      {R"({"id":"a","tokens":[1],"batch":[[1]]})", "both"},
      {R"({"id":"a","tokens":[]})", "tokens: expected at least one token"},
      {R"({"id":"a","tokens":[1,512]})",
       "tokens[1]: expected a whole number from 0 to 511, found 512"},
      {R"({"id":"a","tokens":[1,"x"]})", "tokens[1]"},
      {R"({"id":"a","batch":[[1],[]]})", "batch[1]"},
      {R"({"id":"a","tokens":[1,2],"prefill":3})", "prefill: expected a whole number from 1 to 2"},
      {R"({"id":"a","tokens":[1,2],"chunks":[1,2]})",
       "chunks: 3 tokens in all, the sequence has 2"},
      {R"({"id":"a","tokens":[1,2],"logits":"some"})", "logits: expected"},
      {R"({"id":"a","tokens":[1,2],"logits":[2]})", "position 2, but the longest sequence has 2"},
      {R"({"id":"a","tokens":[1],"prefil":1})", "prefil: no such field"},
      {R"({"id":"a","tokens":[1],"block":"head","h":"x#y"})", "without tokens"},
      {R"({"id":"a","tokens":[1],"taps":["L9.H"]})", "L9.H"},
      {R"({"id":"a","tokens":[1],"mtp":1})", "mtp: expected true or false"},
      {R"({"id":"a","tokens":[1],"block":9})", "block: expected a whole number from 0 to 5"},
      {R"({"id":"a","tokens":[1],"block":1})", "h: missing"},
      {R"({"id":"a","tokens":[1],"block":1,"h":"x"})", "h: expected"},
      {"{\"id\":\"a\",\"tokens\":[1]}\n{\"id\":\"a\",\"tokens\":[1]}", "line 2: id a stands twice"},
  };
  for (const auto& [text, message] : cases) {
    const ProgramResult result = Trace(text);
    EXPECT_EQ(result.exit_code, 3) << text;
    EXPECT_THAT(result.err, HasSubstr(message)) << text;
    EXPECT_FALSE(std::filesystem::exists(Out())) << text;
  }
}

TEST_F(TraceTest, WrongUsageAndModelsHaveTheirExitCodes) {
  EXPECT_EQ(RunProgram({DSV4_BINARY, "trace"}).exit_code, 2);
  EXPECT_EQ(RunProgram({DSV4_BINARY, "trace", "--model", kModel}).exit_code, 2);
  EXPECT_EQ(Trace(R"({"id":"a","tokens":[1]})", "/nowhere").exit_code, 3);
}

}  // namespace
}  // namespace dsv4
