#include "tools/inspect_report.h"

#include <algorithm>

#include "base/json.h"
#include "model/kv_cache.h"
#include "tools/bytes_text.h"

namespace dsv4::tools {
namespace {

using json::Value;
using model::LinearFormat;
using model::ModelConfig;

constexpr int64_t kMillionTokens = 1 << 20;

std::string_view NameOf(LinearFormat format) {
  switch (format) {
    case LinearFormat::kBf16:
      return "bf16";
    case LinearFormat::kFp8:
      return "fp8";
    case LinearFormat::kFp4:
      return "fp4";
  }
  return "?";
}

std::string_view NameOf(model::RouterScore score) {
  switch (score) {
    case model::RouterScore::kSqrtSoftplus:
      return "sqrtsoftplus";
    case model::RouterScore::kSigmoid:
      return "sigmoid";
    case model::RouterScore::kSoftmax:
      return "softmax";
  }
  return "?";
}

std::string LayersText(const ModelConfig& config) {
  const auto main = std::span(config.compress_ratios).first(static_cast<size_t>(config.num_layers));
  return fmt::format("{}: {} window only, {} of ratio 4, {} of ratio 128; {} hash-routed; {} MTP",
                     config.num_layers, std::ranges::count(main, 0), std::ranges::count(main, 4),
                     std::ranges::count(main, 128),
                     std::min(config.num_hash_layers, config.num_layers), config.num_mtp_layers);
}

std::string ConfigurationText(const ModelConfig& c) {
  std::string text = fmt::format("layers        {}\n", LayersText(c));
  text += fmt::format("width         {}, {} copies, vocabulary {}\n", c.hidden_size, c.hc_mult,
                      c.vocab_size);
  text += fmt::format(
      "attention     {} heads of {} ({} rotary), query rank {}, output {} groups of rank {}\n",
      c.num_heads, c.head_dim, c.rope_head_dim, c.q_lora_rank, c.o_groups, c.o_lora_rank);
  text += fmt::format("indexer       {} heads of {}, top {}\n", c.index_num_heads, c.index_head_dim,
                      c.index_topk);
  text += fmt::format("experts       {} of width {}, {} chosen, {} shared; {} times {}, {}\n",
                      c.num_routed_experts, c.moe_inter_dim, c.num_activated_experts,
                      c.num_shared_experts, NameOf(c.router_score), c.route_scale,
                      c.swiglu_limit > 0 ? fmt::format("clamp {}", c.swiglu_limit) : "no clamp");
  text += fmt::format(
      "context       {} tokens, window {}, {}\n", c.max_positions, c.window_size,
      c.yarn ? fmt::format("YaRN {} x {}", c.yarn->original_max_positions, c.yarn->factor)
             : "no YaRN");
  text += fmt::format("formats       {} linears, {} experts", NameOf(c.linear_format),
                      NameOf(c.expert_format));
  if (c.linear_format != LinearFormat::kBf16 || c.expert_format != LinearFormat::kBf16) {
    text += fmt::format(", blocks {} x {}", c.weight_block_rows, c.weight_block_cols);
  }
  text += '\n';
  return text;
}

std::string VerdictText(const model::MemoryPlan& memory) {
  std::string text = std::string(FitText(memory.fit()));
  if (memory.fit() == model::Fit::kDoesNotFit && memory.longest_context() > 0) {
    text += fmt::format(" with {} tokens of context; {} tokens would", memory.context,
                        memory.longest_context());
  }
  return text;
}

std::string FaultText(const TensorFaults& faults) {
  std::string text;
  const auto add = [&](int64_t count, std::string_view what) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add(faults.num_nan, "NaN");
  add(faults.num_infinite, "infinite");
  add(faults.num_nan_scales, "NaN scales");
  add(faults.num_out_of_range, "experts out of range");
  return text;
}

Value IntList(const std::vector<int32_t>& numbers) {
  Value list = Value::MakeArray();
  for (const int32_t number : numbers) list.Append(Value::Int(number));
  return list;
}

Value YarnJson(const std::optional<model::YarnConfig>& yarn) {
  if (!yarn) return {};
  return Value::MakeObject(
      {{"original_max_position_embeddings", Value::Int(yarn->original_max_positions)},
       {"factor", Value::Double(yarn->factor)},
       {"beta_fast", Value::Double(yarn->beta_fast)},
       {"beta_slow", Value::Double(yarn->beta_slow)}});
}

// A float as the shortest decimal that gives it back: 1e-06, not 9.99999997e-07.
Value Shortest(float value) { return Value::NumberText(fmt::format("{}", value)); }
Value Text(std::string_view text) { return Value::String(std::string(text)); }

Value ConfigurationJson(const ModelConfig& c) {
  return Value::MakeObject(
      {{"hidden_size", Value::Int(c.hidden_size)},
       {"num_hidden_layers", Value::Int(c.num_layers)},
       {"num_nextn_predict_layers", Value::Int(c.num_mtp_layers)},
       {"num_hash_layers", Value::Int(c.num_hash_layers)},
       {"vocab_size", Value::Int(c.vocab_size)},
       {"max_position_embeddings", Value::Int(c.max_positions)},
       {"num_attention_heads", Value::Int(c.num_heads)},
       {"head_dim", Value::Int(c.head_dim)},
       {"qk_rope_head_dim", Value::Int(c.rope_head_dim)},
       {"q_lora_rank", Value::Int(c.q_lora_rank)},
       {"o_groups", Value::Int(c.o_groups)},
       {"o_lora_rank", Value::Int(c.o_lora_rank)},
       {"sliding_window", Value::Int(c.window_size)},
       {"compress_ratios", IntList(c.compress_ratios)},
       {"index_n_heads", Value::Int(c.index_num_heads)},
       {"index_head_dim", Value::Int(c.index_head_dim)},
       {"index_topk", Value::Int(c.index_topk)},
       {"n_routed_experts", Value::Int(c.num_routed_experts)},
       {"num_experts_per_tok", Value::Int(c.num_activated_experts)},
       {"n_shared_experts", Value::Int(c.num_shared_experts)},
       {"moe_intermediate_size", Value::Int(c.moe_inter_dim)},
       {"scoring_func", Text(NameOf(c.router_score))},
       {"routed_scaling_factor", Shortest(c.route_scale)},
       {"swiglu_limit", Shortest(c.swiglu_limit)},
       {"rms_norm_eps", Shortest(c.norm_eps)},
       {"rope_theta", Value::Double(c.rope_theta)},
       {"compress_rope_theta", Value::Double(c.compress_rope_theta)},
       {"rope_scaling", YarnJson(c.yarn)},
       {"hc_mult", Value::Int(c.hc_mult)},
       {"hc_sinkhorn_iters", Value::Int(c.hc_sinkhorn_iters)},
       {"hc_eps", Shortest(c.hc_eps)},
       {"linear_format", Text(NameOf(c.linear_format))},
       {"expert_format", Text(NameOf(c.expert_format))},
       {"power_of_two_scales", Value::Bool(c.power_of_two_scales)},
       {"weight_block_size", IntList({c.weight_block_rows, c.weight_block_cols})},
       {"bos_token_id", Value::Int(c.bos_token_id)},
       {"eos_token_id", Value::Int(c.eos_token_id)}});
}

Value MemoryJson(const model::MemoryPlan& memory) {
  return Value::MakeObject({{"weights_bytes", Value::Int(memory.weights_bytes)},
                            {"joined_bytes", Value::Int(memory.joined_bytes)},
                            {"kv_bytes_per_token", Value::Double(memory.kv_bytes_per_token())},
                            {"kv_bytes_at_1m_tokens", Value::Int(memory.kv_bytes(kMillionTokens))},
                            {"state_bytes_per_sequence", Value::Int(memory.state_bytes)},
                            {"workspace_bytes", Value::Int(memory.workspace_bytes)},
                            {"available_bytes", Value::Int(memory.available_bytes)},
                            {"context_tokens", Value::Int(memory.context)},
                            {"longest_context_tokens", Value::Int(memory.longest_context())},
                            {"verdict", Text(FitText(memory.fit()))}});
}

Value FaultyJson(const std::vector<FaultyTensor>& faulty) {
  Value list = Value::MakeArray();
  for (const FaultyTensor& tensor : faulty) {
    list.Append(Value::MakeObject({{"file", Value::String(tensor.file)},
                                   {"tensor", Value::String(tensor.tensor)},
                                   {"nan", Value::Int(tensor.faults.num_nan)},
                                   {"infinite", Value::Int(tensor.faults.num_infinite)},
                                   {"nan_scales", Value::Int(tensor.faults.num_nan_scales)},
                                   {"out_of_range", Value::Int(tensor.faults.num_out_of_range)}}));
  }
  return list;
}

}  // namespace

std::string ReportText(const InspectReport& report) {
  const model::MemoryPlan& memory = report.memory;
  const model::ParameterCounts& parameters = report.parameters;
  std::string text = fmt::format("model         {}\n", report.model.string());
  text += ConfigurationText(report.config);
  text += fmt::format("parameters    {}, {} active per token, {} more in MTP\n",
                      ScaledText(static_cast<double>(parameters.total), ""),
                      ScaledText(static_cast<double>(parameters.active), ""),
                      ScaledText(static_cast<double>(parameters.mtp), ""));
  text += fmt::format("tensors       {} in {} files, {}\n", report.num_tensors, report.num_files,
                      BytesText(static_cast<double>(report.file_bytes)));
  if (report.world > 1) {
    text += fmt::format("converted     for {} ranks; {} of {} weights are joined in memory\n",
                        report.world, BytesText(static_cast<double>(memory.joined_bytes)),
                        BytesText(static_cast<double>(memory.weights_bytes)));
  }
  for (const auto& [dtype, total] : report.types) {
    text += fmt::format("  {:<12}{:>7} tensors {:>10}\n", Name(dtype), total.num_tensors,
                        BytesText(static_cast<double>(total.bytes)));
  }
  text += fmt::format(
      "KV cache      {} per token, {} at {} tokens\n", BytesText(memory.kv_bytes_per_token()),
      BytesText(static_cast<double>(memory.kv_bytes(kMillionTokens))), kMillionTokens);
  text += fmt::format("state         {} per sequence\n",
                      BytesText(static_cast<double>(memory.state_bytes)));
  text += fmt::format("workspace     at most {}\n",
                      BytesText(static_cast<double>(memory.workspace_bytes)));
  text += fmt::format("available     {} of memory\n",
                      BytesText(static_cast<double>(memory.available_bytes)));
  text += fmt::format("verdict       {}\n",
                      report.error.empty() ? VerdictText(memory) : "not loadable: " + report.error);
  if (!report.verified) return text;
  text += fmt::format("verified      {}\n", report.faulty.empty()
                                                ? "every value is finite and every table in range"
                                                : "bad values in:");
  for (const FaultyTensor& tensor : report.faulty) {
    text += fmt::format("  {} ({}): {}\n", tensor.tensor, tensor.file, FaultText(tensor.faults));
  }
  return text;
}

std::string ReportJson(const InspectReport& report) {
  Value types = Value::MakeObject();
  for (const auto& [dtype, total] : report.types) {
    types.Set(std::string(Name(dtype)),
              Value::MakeObject({{"tensors", Value::Int(total.num_tensors)},
                                 {"bytes", Value::Int(total.bytes)}}));
  }
  Value unused = Value::MakeArray();
  for (const std::string& name : report.unused) unused.Append(Value::String(name));
  Value object = Value::MakeObject(
      {{"model", Value::String(report.model.string())},
       {"config", ConfigurationJson(report.config)},
       {"parameters", Value::MakeObject({{"total", Value::Int(report.parameters.total)},
                                         {"active_per_token", Value::Int(report.parameters.active)},
                                         {"mtp", Value::Int(report.parameters.mtp)}})},
       {"tensors", Value::Int(report.num_tensors)},
       {"files", Value::Int(report.num_files)},
       {"ranks", Value::Int(report.world)},
       {"types", std::move(types)},
       {"memory", MemoryJson(report.memory)},
       {"unused", std::move(unused)}});
  if (!report.error.empty()) object.Set("error", Value::String(report.error));
  if (report.verified) object.Set("faults", FaultyJson(report.faulty));
  return json::Dump(object) + "\n";
}

}  // namespace dsv4::tools
