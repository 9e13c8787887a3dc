#include "tests/golden_support/golden_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "base/check.h"
#include "numeric/bf16.h"

namespace dsv4::test {
namespace {

using tools::LogitSelection;
using tools::NamedTensor;
using tools::TraceCase;

Verdict Bad(std::string text) { return {false, std::move(text)}; }

int64_t Int(const json::Value& object, std::string_view key) {
  const json::Value* value = object.Find(key);
  DSV4_CHECK(value != nullptr && value->to_int64(), "golden field {}", key);
  return *value->to_int64();
}

std::vector<int64_t> Ints(const json::Value& array) {
  std::vector<int64_t> numbers;
  for (const json::Value& item : array.items()) numbers.push_back(*item.to_int64());
  return numbers;
}

Tolerance ToleranceOf(const json::Value& rules) {
  const json::Value& strict = *rules.Find("strict");
  return {*strict.Find("rms")->to_double(), *strict.Find("median")->to_double(),
          *strict.Find("max")->to_double()};
}

FloatTensor ToFloats(const NamedTensor& tensor) {
  FloatTensor result;
  result.shape = tensor.shape;
  const size_t element = static_cast<size_t>(BitsPerElement(tensor.dtype) / 8);
  result.values.resize(tensor.data.size() / element);
  for (size_t i = 0; i < result.values.size(); ++i) {
    const std::byte* at = tensor.data.data() + i * element;
    if (tensor.dtype == DType::kBF16) {
      Bf16 value;
      std::memcpy(&value, at, sizeof(value));
      result.values[i] = ToFloat(value);
    } else if (tensor.dtype == DType::kI32) {
      int32_t value;
      std::memcpy(&value, at, sizeof(value));
      result.values[i] = static_cast<float>(value);
    } else {
      std::memcpy(&result.values[i], at, sizeof(float));
    }
  }
  return result;
}

const NamedTensor* FindTensor(const std::vector<NamedTensor>& tensors, std::string_view name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

FloatTensor PickRows(const FloatTensor& tensor, const std::vector<int64_t>& rows) {
  FloatTensor picked;
  picked.shape = tensor.shape;
  picked.shape[0] = static_cast<int64_t>(rows.size());
  const int64_t width = static_cast<int64_t>(tensor.values.size()) / tensor.shape[0];
  for (const int64_t row : rows) {
    DSV4_CHECK(row < tensor.shape[0], "row {} of {}", row, tensor.shape[0]);
    picked.values.insert(picked.values.end(), tensor.values.begin() + row * width,
                         tensor.values.begin() + (row + 1) * width);
  }
  return picked;
}

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> rows;
  for (int64_t i = begin; i < end; ++i) rows.push_back(i);
  return rows;
}

std::vector<int64_t> LastRows(int64_t count, int64_t of) { return Range(of - count, of); }

TraceCase SequenceCase(std::vector<int32_t> tokens, LogitSelection::Kind kind) {
  TraceCase trace;
  trace.id = "x";
  trace.sequences = {std::move(tokens)};
  trace.logits.kind = kind;
  return trace;
}

// The ids of one row that are no "none", ascending.
std::set<int32_t> Set(const FloatTensor& tensor, int64_t row) {
  std::set<int32_t> ids;
  const int64_t width = tensor.shape[1];
  for (int64_t i = 0; i < width; ++i) {
    const float id = tensor.values[static_cast<size_t>(row * width + i)];
    if (id >= 0) ids.insert(static_cast<int32_t>(id));
  }
  return ids;
}

// The largest change of a score that the reference itself showed between orders of summation. It
// stands as BLOCK.idx or BLOCK.router, an object with max_score_change, or as the number
// BLOCK.index_score_change.
double ScoreNoise(const json::Value& doc, const std::string& block, const std::string& choice) {
  double noise = 0;
  const json::Value* flips = doc.Find("flips");
  if (flips == nullptr) return noise;
  for (const auto& [order, entries] : flips->members()) {
    const json::Value* entry = entries.Find(block + "." + choice);
    const json::Value* change = entry == nullptr ? nullptr : entry->Find("max_score_change");
    if (choice == "idx" && change == nullptr) change = entries.Find(block + ".index_score_change");
    if (change != nullptr) noise = std::max(noise, change->to_double().value_or(0));
  }
  return noise;
}

}  // namespace

GoldenModel::GoldenModel(json::Value doc, std::unique_ptr<model::Model> model, Checkpoint logits,
                         Checkpoint taps, std::filesystem::path taps_file)
    : doc_(std::move(doc)),
      model_(std::move(model)),
      logits_(std::move(logits)),
      taps_(std::move(taps)),
      taps_file_(std::move(taps_file)) {}

Result<std::unique_ptr<GoldenModel>> GoldenModel::Load(const std::filesystem::path& folder,
                                                       const std::filesystem::path& checkpoint,
                                                       Ops& ops) {
  std::ifstream file(folder / "cases.json");
  if (!file) return BadInput("{}: cannot be opened", (folder / "cases.json").string());
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  DSV4_ASSIGN(json::Value doc, json::Parse(text));
  DSV4_ASSIGN(std::unique_ptr<model::Model> model,
              model::Model::Load(checkpoint, ops, {.max_rows = 1024}));
  DSV4_ASSIGN(Checkpoint logits, Checkpoint::Open(folder / "logits.safetensors"));
  DSV4_ASSIGN(Checkpoint taps, Checkpoint::Open(folder / "taps.safetensors"));
  return std::unique_ptr<GoldenModel>(new GoldenModel(std::move(doc), std::move(model),
                                                      std::move(logits), std::move(taps),
                                                      folder / "taps.safetensors"));
}

std::vector<int32_t> GoldenModel::Tokens(int64_t count, int64_t first) const {
  const json::Value::Array& all = doc_.Find("tokens")->items();
  DSV4_CHECK(first + count <= static_cast<int64_t>(all.size()), "{} tokens of {}", first + count,
             all.size());
  std::vector<int32_t> tokens;
  for (int64_t i = first; i < first + count; ++i) {
    tokens.push_back(static_cast<int32_t>(*all[static_cast<size_t>(i)].to_int64()));
  }
  return tokens;
}

Result<std::vector<NamedTensor>> GoldenModel::Run(const TraceCase& trace) {
  return tools::RunTraceCase(*model_, trace);
}

Result<FloatTensor> GoldenModel::LogitRows(const json::Value& entry) {
  const std::string kind = entry.Find("kind")->as_string();
  const bool mtp = kind == "mtp_prefill" || kind == "mtp_decode";
  const std::string tensor = mtp ? "x/mtp_logits" : "x/logits";
  if (kind == "prefill_each") {
    FloatTensor rows;
    for (const int64_t length : Ints(*entry.Find("lengths"))) {
      DSV4_ASSIGN(const auto mine, Run(SequenceCase(Tokens(length), LogitSelection::Kind::kLast)));
      const FloatTensor row = ToFloats(*FindTensor(mine, tensor));
      rows.values.insert(rows.values.end(), row.values.begin(), row.values.end());
      rows.shape = {rows.shape.empty() ? 1 : rows.shape[0] + 1, row.shape[1]};
    }
    return rows;
  }
  if (kind == "batch") {
    const int64_t prompt = Int(entry, "prompt");
    TraceCase trace;
    trace.id = "x";
    trace.batch = true;
    trace.prefill = prompt;
    trace.logits.kind = LogitSelection::Kind::kPositions;
    trace.logits.positions = Range(prompt - 4, prompt + Int(entry, "steps"));
    for (const json::Value& sequence : entry.Find("sequences")->items()) {
      const std::vector<int64_t> ids = Ints(sequence);
      trace.sequences.emplace_back(ids.begin(), ids.end());
    }
    DSV4_ASSIGN(const auto mine, Run(trace));
    FloatTensor rows;
    for (size_t s = 0; s < trace.sequences.size(); ++s) {
      const FloatTensor part = ToFloats(*FindTensor(mine, fmt::format("x/{}/logits", s)));
      rows.values.insert(rows.values.end(), part.values.begin(), part.values.end());
      rows.shape = {(rows.shape.empty() ? 0 : rows.shape[0]) + part.shape[0], part.shape[1]};
    }
    return rows;
  }
  const bool decode = kind == "decode" || kind == "mtp_decode";
  const int64_t length = decode ? Int(entry, "prompt") + Int(entry, "steps") : Int(entry, "length");
  TraceCase trace = SequenceCase(Tokens(length + (mtp ? 1 : 0)), LogitSelection::Kind::kAll);
  trace.mtp = mtp;
  if (decode) trace.prefill = Int(entry, "prompt");
  DSV4_ASSIGN(const auto mine, Run(trace));
  const FloatTensor all = ToFloats(*FindTensor(mine, tensor));
  if (decode) return PickRows(all, Range(Int(entry, "prompt"), length));
  if (const json::Value* positions = entry.Find("positions"); positions != nullptr) {
    return PickRows(all, Ints(*positions));
  }
  const TensorInfo* want = logits_.Find(entry.Find("tensor")->as_string());
  return PickRows(all, LastRows(want->shape[0], length));
}

Verdict GoldenModel::CheckLogits(const json::Value& entry) {
  Result<FloatTensor> want = LoadFloats(logits_, entry.Find("tensor")->as_string());
  if (!want) return Bad(want.error().message);
  Result<FloatTensor> got = LogitRows(entry);
  if (!got) return Bad(got.error().message);
  return WithinTolerance(*got, *want, ToleranceOf(*entry.Find("tolerance")));
}

void GoldenModel::CheckTap(const std::vector<NamedTensor>& mine, const std::string& name,
                           const std::string& golden, const std::vector<int64_t>& rows,
                           const json::Value* tolerance, std::vector<Verdict>* verdicts) {
  const NamedTensor* tensor = FindTensor(mine, fmt::format("x/{}", name));
  Result<FloatTensor> want = LoadFloats(taps_, golden);
  if (tensor == nullptr || !want) {
    verdicts->push_back(
        Bad(fmt::format("{}: {}", golden, want ? "not computed" : want.error().message)));
    return;
  }
  FloatTensor got = ToFloats(*tensor);
  if (got.shape[0] != want->shape[0]) got = PickRows(got, rows);
  Verdict verdict = WithinTolerance(got, *want, ToleranceOf(*tolerance));
  verdict.text = golden + ": " + verdict.text;
  verdicts->push_back(std::move(verdict));
}

void GoldenModel::CheckChoices(const std::vector<NamedTensor>& mine, const std::string& block,
                               const std::vector<int64_t>& rows,
                               const json::Value* weight_tolerance,
                               std::vector<Verdict>* verdicts) {
  for (const auto& [tap, noise] : {std::pair{std::string("router_idx"), std::string("router")},
                                   std::pair{std::string("index_sel"), std::string("idx")}}) {
    const std::string golden = "prefill." + block + "." + tap;
    if (taps_.Find(golden) == nullptr) continue;
    Result<FloatTensor> want = LoadFloats(taps_, golden);
    const NamedTensor* tensor = FindTensor(mine, "x/" + block + "." + tap);
    if (!want || tensor == nullptr) {
      verdicts->push_back(Bad(golden + ": not computed"));
      continue;
    }
    FloatTensor got = ToFloats(*tensor);
    if (got.shape[0] != want->shape[0]) got = PickRows(got, rows);
    const std::string margin_name =
        "prefill." + block + (tap == "router_idx" ? ".router_margin" : ".index_margin");
    Result<FloatTensor> margin = LoadFloats(taps_, margin_name);
    const double allowed = ScoreNoise(doc_, block, noise);
    std::vector<int64_t> same;
    for (int64_t row = 0; row < want->shape[0]; ++row) {
      if (Set(got, row) == Set(*want, row)) {
        same.push_back(row);
      } else if (!margin || margin->values[static_cast<size_t>(row)] > allowed) {
        verdicts->push_back(Bad(fmt::format("{}: row {} chose otherwise", golden, row)));
      }
    }
    verdicts->push_back({true, golden});
    if (tap != "router_idx" || weight_tolerance == nullptr || same.empty()) continue;
    // Weights in the golden order of experts, where the choice agrees.
    const FloatTensor weights = [&] {
      FloatTensor w = ToFloats(*FindTensor(mine, "x/" + block + ".router_w"));
      return w.shape[0] != want->shape[0] ? PickRows(w, rows) : w;
    }();
    Result<FloatTensor> want_weights = LoadFloats(taps_, "prefill." + block + ".router_w");
    FloatTensor ordered;
    ordered.shape = {static_cast<int64_t>(same.size()), want->shape[1]};
    const int64_t k = want->shape[1];
    for (const int64_t row : same) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          if (got.values[static_cast<size_t>(row * k + j)] ==
              want->values[static_cast<size_t>(row * k + i)]) {
            ordered.values.push_back(weights.values[static_cast<size_t>(row * k + j)]);
          }
        }
      }
    }
    Verdict verdict =
        WithinTolerance(ordered, PickRows(*want_weights, same), ToleranceOf(*weight_tolerance));
    verdict.text = "prefill." + block + ".router_w: " + verdict.text;
    verdicts->push_back(std::move(verdict));
  }
}

std::vector<Verdict> GoldenModel::CheckBlock(int32_t block) {
  const model::ModelConfig& config = model_->config();
  const json::Value& taps = *doc_.Find("taps");
  const int64_t length = Int(taps, "length");
  const bool is_mtp = config.is_mtp(block);
  const std::string name = is_mtp ? "M0" : fmt::format("L{}", block);
  TraceCase trace;
  trace.id = "x";
  trace.kind = TraceCase::Kind::kBlock;
  trace.block = block;
  trace.sequences = {is_mtp ? Tokens(length, 1) : Tokens(length)};
  trace.logits.kind = LogitSelection::Kind::kNone;
  if (block > 0) {
    trace.h_file = taps_file_;
    trace.h_tensor = fmt::format("prefill.L{}.H", block - 1);
  }
  for (const std::string& tap : model_->TapNames()) {
    if (tap.starts_with(name + ".")) trace.taps.push_back(tap);
  }
  std::vector<Verdict> verdicts;
  Result<std::vector<NamedTensor>> mine = Run(trace);
  if (!mine) return {Bad(mine.error().message)};
  const std::vector<int64_t> rows = Ints(*taps.Find("row_positions"));
  const json::Value& tolerances = *taps.Find("forced_tolerance");
  for (const auto& [tap, rules] : tolerances.members()) {
    if (!tap.starts_with(name + ".") || tap.ends_with(".router_w")) continue;
    CheckTap(*mine, tap, "prefill." + tap, rows, &rules, &verdicts);
  }
  CheckChoices(*mine, name, rows, tolerances.Find(name + ".router_w"), &verdicts);
  return verdicts;
}

Verdict GoldenModel::CheckHead() {
  const json::Value& taps = *doc_.Find("taps");
  const std::string tensor = fmt::format("prefill.L{}.H", model_->config().num_layers - 1);
  TraceCase trace;
  trace.id = "x";
  trace.kind = TraceCase::Kind::kHead;
  trace.h_file = taps_file_;
  trace.h_tensor = tensor;
  Result<std::vector<NamedTensor>> mine = Run(trace);
  if (!mine) return Bad(mine.error().message);
  Result<FloatTensor> want = LoadFloats(logits_, "prefill_full.logits");
  if (!want) return Bad(want.error().message);
  const FloatTensor got = ToFloats(*FindTensor(*mine, "x/logits"));
  // The last H may hold only some rows; its logits belong to those positions of prefill_full.
  std::vector<int64_t> rows = Ints(*taps.Find("row_positions"));
  if (got.shape[0] != static_cast<int64_t>(rows.size())) rows = Range(0, got.shape[0]);
  const std::vector<int64_t> positions = Ints(*doc_.Find("cases")->items()[0].Find("positions"));
  FloatTensor got_rows, want_rows;
  std::vector<int64_t> from_got, from_want;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto at = std::find(positions.begin(), positions.end(), rows[i]);
    if (at == positions.end()) continue;
    from_got.push_back(static_cast<int64_t>(i));
    from_want.push_back(at - positions.begin());
  }
  return WithinTolerance(PickRows(got, from_got), PickRows(*want, from_want),
                         ToleranceOf(*taps.Find("forced_tolerance")->Find("logits")));
}

std::vector<Verdict> GoldenModel::CheckDecodeTaps() {
  constexpr int64_t kPrefill = 126, kSteps = 8;
  const json::Value& tolerances = *doc_.Find("taps")->Find("forced_tolerance");
  TraceCase trace = SequenceCase(Tokens(kPrefill + kSteps), LogitSelection::Kind::kNone);
  trace.prefill = kPrefill;
  for (const std::string& tap : model_->TapNames()) {
    if (tap.starts_with("L0.")) trace.taps.push_back(tap);
  }
  Result<std::vector<NamedTensor>> mine = Run(trace);
  if (!mine) return {Bad(mine.error().message)};
  std::vector<Verdict> verdicts;
  for (const TensorInfo& info : taps_.tensors()) {
    if (!info.name.starts_with("decode.") || info.name.find(".L0.") == std::string::npos) continue;
    const std::string tap = info.name.substr(info.name.find("L0."));
    const int64_t position = std::stoll(info.name.substr(7));
    const json::Value* rules = tolerances.Find(tap);
    if (rules == nullptr) continue;
    const FloatTensor all = ToFloats(*FindTensor(*mine, "x/" + tap));
    FloatTensor got;
    if (tap == "L0.entries" || tap == "L0.index.entries") {
      const int32_t ratio = model_->config().compress_ratios[0];
      got = PickRows(all, {position / ratio});
    } else {
      got = PickRows(all, {position});
    }
    Result<FloatTensor> want = LoadFloats(taps_, info.name);
    if (!want) return {Bad(want.error().message)};
    // A single row: rms, median and max are one number, judged as a maximum.
    const double max = ToleranceOf(*rules).max;
    Verdict verdict = WithinTolerance(got, *want, {max, max, max});
    verdict.text = info.name + ": " + verdict.text;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> GoldenModel::CheckStoredTaps() {
  const json::Value& taps = *doc_.Find("taps");
  const int64_t length = Int(taps, "length");
  const bool mtp = model_->config().num_mtp_layers > 0;
  TraceCase trace = SequenceCase(Tokens(length + (mtp ? 1 : 0)), LogitSelection::Kind::kNone);
  trace.mtp = mtp;
  if (mtp) trace.prefill = length;
  trace.taps = model_->TapNames();
  Result<std::vector<NamedTensor>> mine = Run(trace);
  if (!mine) return {Bad(mine.error().message)};
  const json::Value& tolerances = *taps.Find("tolerance");
  std::vector<Verdict> verdicts;
  for (const json::Value& group : taps.Find("stored")->items()) {
    const json::Value& rows = *group.Find("rows");
    for (const json::Value& tap : group.Find("taps")->items()) {
      const std::string& name = tap.as_string();
      if (name.ends_with(".router_idx")) {
        const std::string block = name.substr(0, name.find('.'));
        CheckChoices(*mine, block, Ints(rows), tolerances.Find(block + ".router_w"), &verdicts);
        continue;
      }
      if (tolerances.Find(name) == nullptr || name.ends_with(".router_w")) continue;
      std::vector<int64_t> picked;
      const TensorInfo* want = taps_.Find("prefill." + name);
      const NamedTensor* got = FindTensor(*mine, "x/" + name);
      if (rows.is_array()) {
        picked = Ints(rows);
      } else if (want != nullptr && got != nullptr) {
        // Entries that the extra token of MTP cases completed are not in the golden file.
        const int32_t layer = std::stoi(name.substr(1));
        const int64_t entries =
            length / model_->config().compress_ratios[static_cast<size_t>(layer)];
        picked = LastRows(want->shape[0], entries);
      }
      CheckTap(*mine, name, "prefill." + name, picked, tolerances.Find(name), &verdicts);
    }
  }
  return verdicts;
}

std::vector<Verdict> GoldenModel::CheckMtpBlock() {
  const json::Value& doc = *doc_.Find("mtp_block");
  const int64_t length = Int(doc, "length");
  TraceCase trace;
  trace.id = "x";
  trace.kind = TraceCase::Kind::kBlock;
  trace.block = model_->config().num_layers;
  trace.sequences = {Tokens(length, 1)};
  trace.h_file = taps_file_;
  trace.h_tensor = "mtp_block.H_in";
  for (const std::string& tap : model_->TapNames()) {
    if (tap.starts_with("M0.")) trace.taps.push_back(tap);
  }
  Result<std::vector<NamedTensor>> mine = Run(trace);
  if (!mine) return {Bad(mine.error().message)};
  const json::Value& stored = *doc.Find("rows");
  std::vector<Verdict> verdicts;
  for (const auto& [name, rules] : doc.Find("tolerance")->members()) {
    const json::Value* rows = stored.Find(name);
    const std::vector<int64_t> picked = rows != nullptr ? Ints(*rows) : Range(0, length);
    const NamedTensor* tensor =
        FindTensor(*mine, name == "logits" ? "x/mtp_logits" : "x/M0." + name);
    Result<FloatTensor> want = LoadFloats(name == "logits" ? logits_ : taps_, "mtp_block." + name);
    if (!want) want = LoadFloats(taps_, "mtp_block." + name);
    if (tensor == nullptr || !want) {
      verdicts.push_back(Bad("mtp_block." + name + ": not computed"));
      continue;
    }
    Verdict verdict =
        WithinTolerance(PickRows(ToFloats(*tensor), picked), *want, ToleranceOf(rules));
    verdict.text = "mtp_block." + name + ": " + verdict.text;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace dsv4::test
