// The family that a configuration names, in which the model's messages are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/read_file.h"
#include "model/config.h"

namespace dsv4::model {
namespace {

using ::testing::HasSubstr;

// Of the golden configuration with `model_type` as given: JSON, or empty for none.
std::string FamilyWith(const std::string& model_type) {
  const json::Value published =
      json::Parse(ReadFile(DSV4_TEST_DATA "/model/flash-tiny/checkpoint/config.json").value())
          .value();
  json::Value::Object members;
  for (const json::Value::Member& member : published.members()) {
    if (member.first != "model_type") members.push_back(member);
  }
  if (!model_type.empty()) members.emplace_back("model_type", json::Parse(model_type).value());
  const Result<ModelConfig> config = ParseConfig(json::Value::MakeObject(std::move(members)));
  return config ? config->model_type : "error: " + config.error().message;
}

TEST(ConfigFamily, IsTakenAsItIsNamedKnownOrNot) {
  EXPECT_EQ(FamilyWith(R"("deepseek_v4")"), "deepseek_v4");
  EXPECT_EQ(FamilyWith(R"("deepseek_v9")"), "deepseek_v9");
  EXPECT_EQ(FamilyWith(R"("")"), "");
}

TEST(ConfigFamily, IsDeepSeekV4WhereNoneIsNamed) {
  EXPECT_EQ(FamilyWith(""), "deepseek_v4");
  EXPECT_EQ(FamilyWith("null"), "deepseek_v4");
  // The inference configuration has no such field.
  const auto config = json::Parse(R"({"dim": 256, "n_layers": 1, "vocab_size": 512, "n_heads": 4,
      "head_dim": 128, "q_lora_rank": 128, "o_groups": 2, "o_lora_rank": 64, "moe_inter_dim": 128,
      "n_routed_experts": 8, "n_activated_experts": 2, "compress_ratios": [0, 0]})");
  const Result<ModelConfig> parsed = ParseConfig(config.value());
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->model_type, "deepseek_v4");
}

TEST(ConfigFamily, IsAString) {
  EXPECT_EQ(FamilyWith("4"), "error: model_type: expected a string, found 4");
  EXPECT_THAT(FamilyWith("[]"), HasSubstr("model_type: expected a string, found an array"));
}

}  // namespace
}  // namespace dsv4::model
