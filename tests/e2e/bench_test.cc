// `dsv4 bench` on small models: the form of its answer, figures against what other verbs and the
// files say, and what wrong command lines and wrong kernels are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/synth.h"
#include "kernels/dispatch.h"
#include "model/config.h"
#include "ops/cpu_ops.h"
#include "tests/support/run_dsv4.h"
#include "tests/support/temp_folder.h"
#include "tests/support/terminal.h"
#include "tools/bench_check.h"
#include "tools/bench_run.h"

namespace dsv4 {
namespace {

using json::Value;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ProgramResult;
using testing::RunDsv4;
using testing::TempFolder;

const std::string kModel = std::string(DSV4_TEST_DATA) + "/model/flash-tiny/checkpoint";

// `options`, and those of a short run where they say nothing.
ProgramResult Bench(std::vector<std::string> options, const std::string& model = kModel) {
  std::vector<std::string> command = {"bench", "--model", model};
  command.insert(command.end(), options.begin(), options.end());
  for (const auto& [flag, value] :
       {std::pair{"--threads", "2"}, {"--repeats", "1"}, {"--prompt", "40"}, {"--gen", "5"}}) {
    if (std::ranges::find(options, flag) == options.end()) {
      command.insert(command.end(), {flag, value});
    }
  }
  return RunDsv4(command);
}
Value Measured(std::vector<std::string> options, const std::string& model = kModel) {
  options.emplace_back("--json");
  const ProgramResult result = Bench(std::move(options), model);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  return json::Parse(result.out).value();
}
Value Inspected(const std::string& model) {
  const ProgramResult result = RunDsv4({"inspect", "--model", model, "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::Parse(result.out).value();
}

std::vector<std::string> KeysOf(const Value& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.members()) keys.push_back(key);
  return keys;
}
double Number(const Value& value, std::initializer_list<const char*> path) {
  const Value* at = &value;
  for (const char* key : path) {
    at = at->Find(key);
    if (at == nullptr) break;
  }
  if (at == nullptr || !at->to_double()) {
    ADD_FAILURE() << "no number at " << ::testing::PrintToString(std::vector(path));
    return NAN;
  }
  return *at->to_double();
}
double Sum(const Value& list, const char* key, bool products_only = false) {
  double sum = 0;
  for (const Value& item : list.items()) {
    if (!products_only || item.Find("product")->as_bool()) sum += Number(item, {key});
  }
  return sum;
}

TEST(BenchTest, JsonIsOneObjectOfTheDocumentedForm) {
  const Value report = Measured({});
  EXPECT_THAT(KeysOf(report), ElementsAre("kernels", "threads", "limits", "decode", "prefill",
                                          "first_token_s", "rss_bytes", "kv_bytes_per_token", "ops",
                                          "memory", "repeats", "check_error"));
  EXPECT_THAT(KeysOf(*report.Find("limits")), ElementsAre("read_bytes_per_s", "flops", "reads"));
  for (const char* key : {"tokens_per_s", "bytes_per_token", "roof_share"}) {
    EXPECT_GT(Number(report, {"decode", key}), 0) << key;
  }
  for (const char* key : {"tokens_per_s", "peak_share"}) {
    EXPECT_GT(Number(report, {"prefill", key}), 0) << key;
  }
  EXPECT_EQ(Number(report, {"prefill", "tokens"}), 40);
  EXPECT_EQ(Number(report, {"threads"}), 2);
  EXPECT_GT(Number(report, {"first_token_s"}), 0);
  EXPECT_LT(Number(report, {"first_token_s"}), 60);
  EXPECT_EQ(report.Find("kernels")->as_string(), (*kernels::Choose(""))->name);
  std::vector<std::string> ops;
  for (const Value& op : report.Find("ops")->items()) {
    EXPECT_THAT(KeysOf(op), ElementsAre("op", "calls", "ms", "bytes_per_s", "flops", "product"));
    ops.push_back(op.Find("op")->as_string());
  }
  EXPECT_THAT(ops, ::testing::IsSupersetOf({"linear_fp8", "linear_f32", "experts", "attention",
                                            "hyper_pre", "choose", "between"}));
}

// Every name in `value`, and in what it holds.
void ExpectNamesIn(const std::string& document, const Value& value) {
  if (value.is_array() && !value.items().empty()) ExpectNamesIn(document, value.items().front());
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.members()) {
    EXPECT_THAT(document, ::testing::ContainsRegex("[`.]" + key + "`"));
    ExpectNamesIn(document, member);
  }
}

TEST(BenchTest, TheDocumentExplainsEveryField) {
  ExpectNamesIn(testing::ReadFileText(DSV4_TEST_DATA "/../../docs/performance.md"), Measured({}));
}

TEST(BenchTest, CtrlCSaysSoAndLeavesNoBar) {
  testing::Terminal terminal(
      {DSV4_BINARY, "bench", "--model", kModel, "--threads", "1", "--repeats", "1000"}, {});
  ASSERT_TRUE(terminal.WaitFor("bench ")) << terminal.screen();
  terminal.Type("\x03");
  ASSERT_TRUE(terminal.WaitFor("\r\x1b[Kdsv4: interrupted")) << terminal.screen();
  EXPECT_EQ(terminal.Wait(), 1);
}

TEST(BenchTest, ADumbTerminalGetsNoBar) {
  testing::Terminal terminal(
      {DSV4_BINARY, "bench", "--model", kModel, "--threads", "1", "--repeats", "2"},
      {{"TERM", "dumb"}});
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_THAT(terminal.screen(),
              ::testing::AllOf(HasSubstr("decode"), ::testing::Not(HasSubstr("\x1b"))));
}

TEST(BenchTest, FiguresAgreeWithEachOther) {
  const Value report = Measured({"--batch", "3"});
  const Value& decode = *report.Find("decode");
  EXPECT_NEAR(Number(decode, {"roof_share"}),
              Number(decode, {"tokens_per_s"}) * Number(decode, {"bytes_per_token"}) /
                  Number(report, {"limits", "read_bytes_per_s"}),
              1e-9);
  EXPECT_NEAR(Number(decode, {"tokens_per_s"}) * Number(decode, {"ms_per_step"}), 3000, 1e-6);
  double bytes = 0;
  for (const auto& [kind, amount] : decode.Find("bytes")->members()) bytes += *amount.to_double();
  EXPECT_NEAR(Number(decode, {"bytes_per_token"}), bytes, 1e-6 * bytes);
  EXPECT_EQ(Number(decode, {"disk_bytes_per_token"}), 0) << "all is in memory after the first run";
  EXPECT_EQ(report.Find("limits")->Find("reads")->items().size(), 2u) << "before and after";
  EXPECT_EQ(decode.Find("seconds")->items().size(), 1u);
  // The lines of the table are the whole of a step.
  const Value& ops = *report.Find("ops");
  EXPECT_NEAR(Sum(ops, "ms") / Number(decode, {"ms_per_step"}),
              1 + Number(decode, {"profile_cost"}), 1e-6);
  EXPECT_NEAR(Number(decode, {"rest_share"}), 1 - Sum(ops, "ms", true) / Sum(ops, "ms"), 1e-9);
  EXPECT_NEAR(Number(report, {"prefill", "peak_share"}),
              Number(report, {"prefill", "tokens_per_s"}) *
                  Number(report, {"prefill", "flops_per_token"}) /
                  Number(report, {"limits", "flops"}),
              1e-9);
  EXPECT_LE(Number(report, {"memory", "anonymous_bytes"}), Number(report, {"rss_bytes"}));
}

// One token at a time: the weights that `inspect` counts as active, each in its format.
TEST(BenchTest, BytesOfATokenAreTheActiveWeightsAsInspectCountsThem) {
  for (const char* variant : {"flash-tiny", "bf16-tiny", "fp8exp-tiny"}) {
    const std::string model = std::string(DSV4_TEST_DATA) + "/model/" + variant + "/checkpoint";
    const Value report = Measured({"--context", "900"}, model);
    const Value inspected = Inspected(model);
    const Value& bytes = *report.Find("decode")->Find("bytes");
    EXPECT_EQ(Number(bytes, {"fp8"}) + 2 * Number(bytes, {"fp4"}) + Number(bytes, {"bf16"}) / 2 +
                  Number(bytes, {"f32"}) / 4,
              Number(inspected, {"parameters", "active_per_token"}))
        << variant;
    EXPECT_EQ(Number(report, {"kv_bytes_per_token"}),
              Number(inspected, {"memory", "kv_bytes_per_token"}));
    EXPECT_EQ(Number(report, {"memory", "state_bytes"}),
              Number(inspected, {"memory", "state_bytes_per_sequence"}));
    // The page of the last position included.
    EXPECT_EQ(Number(report, {"memory", "kv_bytes"}),
              (900 + 45 + 127) / 128 * 128 * Number(report, {"kv_bytes_per_token"}));
    EXPECT_GT(Number(bytes, {"kv_rows"}), 0);
    EXPECT_EQ(Number(report, {"decode", "experts_per_layer"}),
              Number(inspected, {"config", "num_experts_per_tok"}));
  }
}

// Of a context of a million tokens; all experts are active, and there is no MTP block.
const std::string& LongModel() {
  static const TempFolder folder;
  static const std::string path = [] {
    const std::vector<SynthSetting> settings = {{"vocab_size", "512"},
                                                {"num_hidden_layers", "3"},
                                                {"num_hash_layers", "1"},
                                                {"num_nextn_predict_layers", "0"},
                                                {"compress_ratios", "[0,4,128]"},
                                                {"n_routed_experts", "4"},
                                                {"num_experts_per_tok", "4"}};
    const auto synth = SynthModel::Make("tiny-flash", settings);
    EXPECT_TRUE(synth) << synth.error().message;
    const Status written = WriteSynth(*synth, {.out = folder / "model"});
    EXPECT_TRUE(written) << written.error().message;
    return (folder / "model").string();
  }();
  return path;
}

TEST(BenchTest, ScalesAreThoseOfTheFile) {
  const Value report = Measured({}, LongModel());
  EXPECT_EQ(Number(report, {"decode", "bytes", "scales"}),
            Number(Inspected(LongModel()), {"types", "F8_E8M0", "bytes"}));
}

TEST(BenchTest, AMillionTokensOfContextTakeNoTimeToReach) {
  const Value report = Measured({"--context", "1048531"}, LongModel());
  EXPECT_EQ(Number(report, {"decode", "first_position"}), 1048571);
  // Every key of the layer of ratio 4; steps see 262142.8 of them on average.
  const auto config = model::LoadConfig(LongModel());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_NEAR(Number(report, {"decode", "bytes", "index_keys"}),
              262142.8 * static_cast<double>(IndexRowLayout{config->index_head_dim}.row_bytes()),
              100);
}

TEST(BenchTest, ContextWithoutAPrompt) {
  const Value report = Measured({"--context", "1000", "--prompt", "0"});
  EXPECT_EQ(Number(report, {"decode", "first_position"}), 1000);
  EXPECT_TRUE(report.Find("prefill")->Find("tokens_per_s")->is_null());
  EXPECT_TRUE(report.Find("prefill")->Find("peak_share")->is_null());
  EXPECT_GT(Number(report, {"first_token_s"}), 0);
  EXPECT_GT(Number(Measured({"--prompt", "0"}), {"decode", "tokens_per_s"}), 0);
}

TEST(BenchTest, TablesShowEveryFigure) {
  const ProgramResult result = Bench({"--context", "100"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* text :
       {"kernels ", ", 2 threads", "limits        reads ",
        "prefill       40 tokens from position 100",
        "decode        5 steps from position 140, batch 1", "first token ", "read a token ", "fp8 ",
        "index keys ", "memory ", "everything but products ", "  experts "}) {
    EXPECT_THAT(result.out, HasSubstr(text));
  }
}

TEST(BenchTest, WrongCommandLinesAreUsageErrors) {
  EXPECT_EQ(RunDsv4({"bench"}).exit_code, 2);
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--gen", "0"},
                                             {"--gen", "-1"},
                                             {"--batch", "0"},
                                             {"--batch", "513"},
                                             {"--repeats", "0"},
                                             {"--prompt", "x"},
                                             {"--threads", "0"},
                                             {"--kernels", "ref"}}) {
    const ProgramResult result = Bench(options);
    EXPECT_EQ(result.exit_code, 2) << options[0] << result.err;
    EXPECT_THAT(result.out, IsEmpty());
  }
  const ProgramResult beyond = Bench({"--context", "1048532"}, LongModel());
  EXPECT_EQ(beyond.exit_code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--context 1048532, --prompt 40 and --gen 5 are 1048577 tokens "
                                    "together, expected at most the model's 1048576"));
  EXPECT_EQ(Bench({"--context", "1099511627776"}).exit_code, 2);
  EXPECT_EQ(Bench({}, "/nowhere").exit_code, 3);
}

TEST(BenchTest, ACacheBeyondMemoryDoesNotFit) {
  const ProgramResult result = Bench({"--context", "1000000", "--batch", "512"}, LongModel());
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_THAT(result.err, HasSubstr("512 sequences of 1000045 tokens take "));
}

// A kernel table with one wrong entry.
struct Planted {
  explicit Planted(void (*plant)(kernels::Kernels*)) : table(**kernels::Choose("")) {
    plant(&table);
    ops = MakeCpuOps(table, 2);
  }
  kernels::Kernels table;
  std::unique_ptr<Ops> ops;
};

const kernels::Kernels& Right() { return **kernels::Choose(""); }

void NoOddRowsOfProducts(kernels::Kernels* table) {
  table->product = [](const kernels::ProductArgs& args) {
    Right().product(args);
    if (args.output_type != kernels::OutputType::kBf16) return;
    for (int64_t r = 0; r < args.num_rows; ++r) {
      auto* row = static_cast<Bf16*>(args.output) + r * args.output_stride;
      for (int64_t n = args.begin | 1; n < args.end; n += 2) row[n - args.begin] = Bf16{};
    }
  };
}
void NoAttention(kernels::Kernels* table) {
  table->sparse_attention = [](const kernels::SparseAttentionArgs&) {};
}
void WrongInBatches(kernels::Kernels* table) {
  table->product = [](const kernels::ProductArgs& args) {
    Right().product(args);
    if (args.num_rows < 2 || args.output_type != kernels::OutputType::kBf16) return;
    static_cast<Bf16*>(args.output)[0] = ToBf16(1.0f);
  };
}

TEST(BenchTest, AnswersOfEverySetAreThoseOfRef) {
  for (const kernels::Kernels* set : kernels::Runnable()) {
    for (const char* variant : {"flash-tiny", "pro-tiny", "bf16-tiny", "fp8exp-tiny"}) {
      const std::unique_ptr<Ops> ops = MakeCpuOps(*set, 2);
      const auto check = tools::CheckAnswers(
          std::string(DSV4_TEST_DATA) + "/model/" + variant + "/checkpoint", *ops);
      ASSERT_TRUE(check) << set->name << " " << variant << ": " << check.error().message;
      EXPECT_LT(check->error, 0.03) << set->name << " " << variant;
    }
  }
}

TEST(BenchTest, AWrongKernelIsFoundBeforeAnythingIsMeasured) {
  for (const auto plant : {NoOddRowsOfProducts, NoAttention}) {
    const auto report =
        tools::RunBench(kModel, *Planted(plant).ops, {.prompt = 8, .gen = 2}, NoProgress());
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind, ErrorKind::kFailed);
    EXPECT_THAT(report.error().message, HasSubstr("the logits are not those of ref"));
  }
  const auto check = tools::CheckAnswers(kModel, *Planted(WrongInBatches).ops);
  ASSERT_FALSE(check);
  EXPECT_THAT(check.error().message, HasSubstr("rows in batches of 1 differ from"));
}

// Right at first, and wrong in a later run.
int64_t products_left = 0;
void WrongLater(kernels::Kernels* table) {
  table->product = [](const kernels::ProductArgs& args) {
    Right().product(args);
    if (args.output_type == kernels::OutputType::kF32 && args.weight->rows == 512 &&
        args.begin == 0 && --products_left < 0) {
      static_cast<float*>(args.output)[0] = 1e9f;
    }
  };
}

TEST(BenchTest, ALaterRunThatAnswersOtherwiseIsAFailure) {
  const tools::BenchOptions options{.prompt = 8, .gen = 3, .repeats = 2};
  // Heads: the prompt's, three steps, one of the check, then the first repeat.
  products_left = 6;
  const auto decode = tools::RunBench(kModel, *Planted(WrongLater).ops, options, NoProgress());
  ASSERT_FALSE(decode);
  EXPECT_THAT(decode.error().message, HasSubstr("step 1 of sequence 0 answers token "));
  products_left = 8;
  const auto prompt = tools::RunBench(kModel, *Planted(WrongLater).ops, options, NoProgress());
  ASSERT_FALSE(prompt);
  EXPECT_THAT(prompt.error().message, HasSubstr("the prompt's logits differ between two runs"));
}

}  // namespace
}  // namespace dsv4
