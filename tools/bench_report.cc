#include "tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/json.h"

namespace dsv4::tools {
namespace {

using json::Value;

double Float(int64_t value) { return static_cast<double>(value); }

bool IsProduct(OpKind kind) {
  switch (kind) {
    case OpKind::kLinearFp8:
    case OpKind::kLinearFp4:
    case OpKind::kLinearBf16:
    case OpKind::kLinearF32:
    case OpKind::kExpertsProducts:
      return true;
    default:
      return false;
  }
}

// One line of the table: of one step, or of the prompt.
struct OpLine {
  std::string name;
  bool product = false;
  double calls = 0;
  double seconds = 0;
  double bytes = 0;
  double flops = 0;
};

// The operations, and what lies between them, so that the lines sum up to the whole.
std::vector<OpLine> LinesOf(const BenchPhase& phase, double num_steps) {
  std::vector<OpLine> lines;
  double between = phase.profiled_seconds - phase.choosing_seconds;
  for (size_t i = 0; i < kNumOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const OpProfile::Row& row = phase.profile[kind];
    if (row.calls == 0 && row.ns == 0) continue;
    const double seconds = Float(row.ns) * 1e-9;
    between -= seconds;
    lines.push_back({std::string(Name(kind)), IsProduct(kind), Float(row.calls) / num_steps,
                     seconds / num_steps, Float(row.bytes) / num_steps,
                     Float(row.flops) / num_steps});
  }
  if (phase.choosing_seconds > 0) {
    lines.push_back({"choose", false, 1, phase.choosing_seconds / num_steps, 0, 0});
  }
  lines.push_back({"between", false, 0, std::max(between, 0.0) / num_steps, 0, 0});
  return lines;
}

double RestShare(const std::vector<OpLine>& lines) {
  double rest = 0, all = 0;
  for (const OpLine& line : lines) {
    all += line.seconds;
    if (!line.product) rest += line.seconds;
  }
  return rest / all;
}

// How much longer the profiled repeat took than the median of the others.
double ProfileCost(const BenchPhase& phase) {
  return phase.profiled_seconds / phase.median_seconds() - 1;
}

double Flops(const OpProfile& profile) {
  int64_t flops = 0;
  for (const OpProfile::Row& row : profile.rows) flops += row.flops;
  return Float(flops);
}

// What the report shows, from what was measured.
struct Figures {
  explicit Figures(const BenchReport& report)
      : limits(report.median_limits()),
        num_tokens(Float(report.options.gen * report.options.batch)),
        decode_s(report.decode.median_seconds()),
        tokens_per_s(num_tokens / decode_s),
        bytes_per_token(Float(report.decode_bytes.total()) / num_tokens),
        roof_share(tokens_per_s * bytes_per_token / limits.read_bytes_per_s),
        experts_per_layer(Float(report.decode_bytes.num_experts) /
                          Float(report.options.gen * report.num_layers)),
        ops(LinesOf(report.decode, Float(report.options.gen))) {
    if (report.options.prompt == 0) return;
    prefill_s = report.prefill.median_seconds();
    peak_share = Flops(report.prefill.profile) / prefill_s / limits.flops;
    prefill_ops = LinesOf(report.prefill, 1);
  }

  MachineLimits limits;
  double num_tokens;
  double decode_s;
  double tokens_per_s;
  double bytes_per_token;
  double roof_share;
  double experts_per_layer;
  std::vector<OpLine> ops;
  double prefill_s = 0;
  double peak_share = 0;
  std::vector<OpLine> prefill_ops;
};

std::string TableText(const std::vector<OpLine>& lines) {
  double all = 0;
  for (const OpLine& line : lines) all += line.seconds;
  std::string text = fmt::format("  {:<14}{:>8}{:>11}{:>8}{:>9}{:>10}\n", "op", "calls", "ms", "%",
                                 "GB/s", "GFLOP/s");
  const auto rate = [](double amount, double seconds) {
    return amount > 0 && seconds > 0 ? fmt::format("{:.2f}", amount / seconds / 1e9) : "";
  };
  for (const OpLine& line : lines) {
    text += fmt::format("  {:<14}{:>8.4g}{:>11.4f}{:>8.2f}{:>9}{:>10}\n", line.name, line.calls,
                        line.seconds * 1e3, 100 * line.seconds / all,
                        rate(line.bytes, line.seconds), rate(line.flops, line.seconds));
  }
  return text + fmt::format("  everything but products {:.1f} %\n", 100 * RestShare(lines));
}

std::string BytesText(const BenchReport& report, const Figures& figures) {
  const StepBytes& bytes = report.decode_bytes;
  std::string text = fmt::format("read a token  {:.4f} MB: ", figures.bytes_per_token / 1e6);
  for (const auto& [name, amount] : {std::pair{"fp8", bytes.weights.fp8},
                                     {"fp4", bytes.weights.fp4},
                                     {"bf16", bytes.weights.bf16},
                                     {"f32", bytes.weights.f32},
                                     {"scales", bytes.weights.scales},
                                     {"KV rows", bytes.kv_rows},
                                     {"index keys", bytes.index_keys}}) {
    text += fmt::format("{} {:.4f}, ", name, Float(amount) / figures.num_tokens / 1e6);
  }
  return text + fmt::format("{:.2f} routed experts a layer and step\n", figures.experts_per_layer);
}

// Per token of `num_tokens`; null where it is not known.
Value DiskJson(const BenchPhase& phase, double num_tokens) {
  const std::optional<double> bytes = phase.median_disk_bytes();
  return bytes ? Value::Double(*bytes / num_tokens) : Value();
}

std::string DiskText(const BenchPhase& phase, double num_tokens) {
  const double bytes = phase.median_disk_bytes().value_or(0);
  if (bytes == 0) return {};
  return fmt::format("from disk     {:.4f} MB a token, {:.1f} MB/s\n", bytes / num_tokens / 1e6,
                     bytes / phase.median_seconds() / 1e6);
}

Value OpsJson(const std::vector<OpLine>& lines) {
  Value list = Value::MakeArray();
  for (const OpLine& line : lines) {
    const auto rate = [&](double amount) {
      return Value::Double(line.seconds > 0 ? amount / line.seconds : 0);
    };
    list.Append(Value::MakeObject({{"op", Value::String(line.name)},
                                   {"calls", Value::Double(line.calls)},
                                   {"ms", Value::Double(line.seconds * 1e3)},
                                   {"bytes_per_s", rate(line.bytes)},
                                   {"flops", rate(line.flops)},
                                   {"product", Value::Bool(line.product)}}));
  }
  return list;
}

Value NumbersJson(const std::vector<double>& numbers) {
  Value list = Value::MakeArray();
  for (const double number : numbers) list.Append(Value::Double(number));
  return list;
}

Value LimitsJson(const BenchReport& report, const MachineLimits& median) {
  std::vector<double> reads;
  for (const MachineLimits& limit : report.limits) reads.push_back(limit.read_bytes_per_s);
  return Value::MakeObject({{"read_bytes_per_s", Value::Double(median.read_bytes_per_s)},
                            {"flops", Value::Double(median.flops)},
                            {"reads", NumbersJson(reads)}});
}

Value DecodeJson(const BenchReport& report, const Figures& figures) {
  const StepBytes& bytes = report.decode_bytes;
  const auto per_token = [&](int64_t amount) {
    return Value::Double(Float(amount) / figures.num_tokens);
  };
  return Value::MakeObject(
      {{"tokens_per_s", Value::Double(figures.tokens_per_s)},
       {"bytes_per_token", Value::Double(figures.bytes_per_token)},
       {"roof_share", Value::Double(figures.roof_share)},
       {"steps", Value::Int(report.options.gen)},
       {"batch", Value::Int(report.options.batch)},
       {"first_position", Value::Int(report.options.context + report.options.prompt)},
       {"ms_per_step", Value::Double(figures.decode_s * 1e3 / Float(report.options.gen))},
       {"seconds", NumbersJson(report.decode.seconds)},
       {"bytes", Value::MakeObject({{"fp8", per_token(bytes.weights.fp8)},
                                    {"fp4", per_token(bytes.weights.fp4)},
                                    {"bf16", per_token(bytes.weights.bf16)},
                                    {"f32", per_token(bytes.weights.f32)},
                                    {"scales", per_token(bytes.weights.scales)},
                                    {"kv_rows", per_token(bytes.kv_rows)},
                                    {"index_keys", per_token(bytes.index_keys)}})},
       {"disk_bytes_per_token", DiskJson(report.decode, figures.num_tokens)},
       {"experts_per_layer", Value::Double(figures.experts_per_layer)},
       {"rest_share", Value::Double(RestShare(figures.ops))},
       {"profile_cost", Value::Double(ProfileCost(report.decode))}});
}

Value PrefillJson(const BenchReport& report, const Figures& figures) {
  const bool measured = report.options.prompt > 0;
  const auto number = [&](double value) { return measured ? Value::Double(value) : Value(); };
  return Value::MakeObject(
      {{"tokens", Value::Int(report.options.prompt)},
       {"tokens_per_s", number(Float(report.options.prompt) / figures.prefill_s)},
       {"peak_share", number(figures.peak_share)},
       {"first_position", Value::Int(report.options.context)},
       {"seconds", NumbersJson(report.prefill.seconds)},
       {"disk_bytes_per_token",
        measured ? DiskJson(report.prefill, Float(report.options.prompt)) : Value()},
       {"flops_per_token", number(Flops(report.prefill.profile) / Float(report.options.prompt))},
       {"rest_share", measured ? Value::Double(RestShare(figures.prefill_ops)) : Value()},
       {"ops", OpsJson(figures.prefill_ops)}});
}

}  // namespace

std::string BenchText(const BenchReport& report) {
  const Figures figures(report);
  const BenchOptions& options = report.options;
  std::string text = fmt::format("kernels       {}, {} threads\n", report.kernels, report.threads);
  const auto [least, most] =
      std::ranges::minmax(report.limits, {}, &MachineLimits::read_bytes_per_s);
  text += fmt::format(
      "limits        reads {:.2f} GB/s ({:.2f} to {:.2f}), multiplies and adds {:.1f} GFLOP/s\n",
      figures.limits.read_bytes_per_s / 1e9, least.read_bytes_per_s / 1e9,
      most.read_bytes_per_s / 1e9, figures.limits.flops / 1e9);
  text +=
      fmt::format("check         logits are those of ref within {:.2g}; every run answers alike\n",
                  report.check_error);
  if (options.prompt > 0) {
    text += fmt::format(
        "prefill       {} tokens from position {}: {:.2f} tokens/s, {:.1f} % of the peak\n",
        options.prompt, options.context, Float(options.prompt) / figures.prefill_s,
        100 * figures.peak_share);
  }
  text += fmt::format(
      "decode        {} steps from position {}, batch {}: {:.2f} tokens/s, {:.2f} ms a step, "
      "{:.1f} % "
      "of the roof\n",
      options.gen, options.context + options.prompt, options.batch, figures.tokens_per_s,
      figures.decode_s * 1e3 / Float(options.gen), 100 * figures.roof_share);
  text +=
      fmt::format("first token   {:.3f} s after the start of the process\n", report.first_token_s);
  text += BytesText(report, figures);
  text += DiskText(report.decode, figures.num_tokens);
  text += fmt::format("memory        at most {:.1f} MB\n", Float(report.memory.peak_bytes) / 1e6);
  text += fmt::format(
      "  but weights {:.1f} MB: KV cache {:.1f} ({:.1f} B a token), state {:.1f}, workspace "
      "{:.1f}, "
      "the rest {:.1f}\n",
      Float(report.memory.anonymous_bytes) / 1e6, Float(report.kv_bytes) / 1e6,
      report.kv_bytes_per_token, Float(report.state_bytes) / 1e6,
      Float(report.workspace_bytes) / 1e6,
      Float(report.memory.anonymous_bytes - report.kv_bytes - report.state_bytes -
            report.workspace_bytes) /
          1e6);
  text += fmt::format("a decode step by operation (a run of its own, {:+.1f} % of time)\n",
                      100 * ProfileCost(report.decode));
  text += TableText(figures.ops);
  if (options.prompt == 0) return text;
  text += fmt::format("the prompt by operation (a run of its own, {:+.1f} % of time)\n",
                      100 * ProfileCost(report.prefill));
  return text + TableText(figures.prefill_ops);
}

std::string BenchJson(const BenchReport& report) {
  const Figures figures(report);
  const Value object = Value::MakeObject(
      {{"kernels", Value::String(report.kernels)},
       {"threads", Value::Int(report.threads)},
       {"limits", LimitsJson(report, figures.limits)},
       {"decode", DecodeJson(report, figures)},
       {"prefill", PrefillJson(report, figures)},
       {"first_token_s", Value::Double(report.first_token_s)},
       {"rss_bytes", Value::Int(report.memory.peak_bytes)},
       {"kv_bytes_per_token", Value::Double(report.kv_bytes_per_token)},
       {"ops", OpsJson(figures.ops)},
       {"memory", Value::MakeObject({{"anonymous_bytes", Value::Int(report.memory.anonymous_bytes)},
                                     {"kv_bytes", Value::Int(report.kv_bytes)},
                                     {"state_bytes", Value::Int(report.state_bytes)},
                                     {"workspace_bytes", Value::Int(report.workspace_bytes)}})},
       {"repeats", Value::Int(report.options.repeats)},
       {"check_error", Value::Double(report.check_error)}});
  return json::Dump(object) + "\n";
}

}  // namespace dsv4::tools
