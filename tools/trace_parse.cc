#include <algorithm>
#include <iterator>
#include <numeric>

#include "tools/trace_case.h"

namespace dsv4::tools {
namespace {

// A whole number in [least, most].
Result<int64_t> ReadInt(const json::Value& value, std::string_view field, int64_t least,
                        int64_t most) {
  const std::optional<int64_t> number = value.to_int64();
  if (!number || *number < least || *number > most) {
    return BadInput("{}: expected a whole number from {} to {}, found {}", field, least, most,
                    json::Dump(value));
  }
  return *number;
}

Result<std::vector<int64_t>> ReadInts(const json::Value& value, std::string_view field,
                                      int64_t least, int64_t most) {
  if (!value.is_array()) {
    return BadInput("{}: expected an array of whole numbers, found {}", field,
                    KindName(value.kind()));
  }
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < value.items().size(); ++i) {
    DSV4_ASSIGN(const int64_t number,
                ReadInt(value.items()[i], fmt::format("{}[{}]", field, i), least, most));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::vector<int32_t>> ReadTokens(const json::Value& value, std::string_view field,
                                        const model::ModelConfig& config) {
  DSV4_ASSIGN(const std::vector<int64_t> numbers, ReadInts(value, field, 0, config.vocab_size - 1));
  if (numbers.empty()) return BadInput("{}: expected at least one token, found none", field);
  if (static_cast<int64_t>(numbers.size()) > config.max_positions) {
    return DoesNotFit("{}: {} tokens, the model's context holds {}", field, numbers.size(),
                      config.max_positions);
  }
  return std::vector<int32_t>(numbers.begin(), numbers.end());
}

Result<LogitSelection> ReadLogits(const json::Value& value) {
  LogitSelection selection;
  if (value.is_string() && value.as_string() == "all") return selection;
  if (value.is_string() && value.as_string() == "last") {
    selection.kind = LogitSelection::Kind::kLast;
    return selection;
  }
  if (value.is_string() && value.as_string() == "none") {
    selection.kind = LogitSelection::Kind::kNone;
    return selection;
  }
  if (!value.is_array()) {
    return BadInput(
        "logits: expected \"all\", \"last\", \"none\" or an array of positions, found {}",
        json::Dump(value));
  }
  selection.kind = LogitSelection::Kind::kPositions;
  DSV4_ASSIGN(selection.positions, ReadInts(value, "logits", 0, INT64_MAX));
  std::sort(selection.positions.begin(), selection.positions.end());
  return selection;
}

Status ReadTaps(const json::Value& value, const model::Model& model, TraceCase* trace) {
  if (!value.is_array()) {
    return BadInput("taps: expected an array of names, found {}", KindName(value.kind()));
  }
  const std::vector<std::string> known = model.TapNames();
  for (const json::Value& name : value.items()) {
    if (!name.is_string() ||
        std::find(known.begin(), known.end(), name.as_string()) == known.end()) {
      return BadInput("taps: {} is no tap of this model (--list-taps lists them)",
                      json::Dump(name));
    }
    trace->taps.push_back(name.as_string());
  }
  return {};
}

Status ReadBlock(const json::Value& block, const json::Value* h, const model::ModelConfig& config,
                 TraceCase* trace) {
  trace->kind = TraceCase::Kind::kBlock;
  if (block.is_string() && block.as_string() == "head") {
    trace->kind = TraceCase::Kind::kHead;
  } else if (block.is_string() && block.as_string() == "mtp") {
    if (config.num_mtp_layers == 0)
      return BadInput("block: \"mtp\", but the model has no MTP block");
    trace->block = config.num_layers;
  } else if (block.is_number()) {
    DSV4_ASSIGN(const int64_t index, ReadInt(block, "block", 0, config.num_blocks() - 1));
    trace->block = static_cast<int32_t>(index);
  } else {
    return BadInput("block: expected a layer number, \"mtp\" or \"head\", found {}",
                    json::Dump(block));
  }
  if (h == nullptr) {
    if (trace->kind == TraceCase::Kind::kHead || trace->block != 0) {
      return BadInput("h: missing; only block 0 has an input of its own (the embedding)");
    }
    return {};
  }
  const size_t hash = h->is_string() ? h->as_string().rfind('#') : std::string::npos;
  if (hash == std::string::npos) {
    return BadInput("h: expected \"FILE.safetensors#TENSOR\", found {}", json::Dump(*h));
  }
  trace->h_file = h->as_string().substr(0, hash);
  trace->h_tensor = h->as_string().substr(hash + 1);
  return {};
}

Status ReadSequences(const json::Value& line, const model::ModelConfig& config, TraceCase* trace) {
  const json::Value* tokens = line.Find("tokens");
  const json::Value* batch = line.Find("batch");
  if ((tokens == nullptr) == (batch == nullptr)) {
    return BadInput("expected either \"tokens\" or \"batch\", found {}",
                    tokens == nullptr ? "neither" : "both");
  }
  if (tokens != nullptr) {
    DSV4_ASSIGN(std::vector<int32_t> sequence, ReadTokens(*tokens, "tokens", config));
    trace->sequences.push_back(std::move(sequence));
    return {};
  }
  trace->batch = true;
  if (!batch->is_array() || batch->items().empty()) {
    return BadInput("batch: expected an array of token arrays, found {}", json::Dump(*batch));
  }
  for (size_t i = 0; i < batch->items().size(); ++i) {
    DSV4_ASSIGN(std::vector<int32_t> sequence,
                ReadTokens(batch->items()[i], fmt::format("batch[{}]", i), config));
    trace->sequences.push_back(std::move(sequence));
  }
  return {};
}

// Positions that no sequence has would silently give no rows.
Status CheckPositions(const TraceCase& trace) {
  size_t longest = 0;
  for (const auto& sequence : trace.sequences) longest = std::max(longest, sequence.size());
  const std::vector<int64_t>& positions = trace.logits.positions;
  if (trace.kind == TraceCase::Kind::kHead || positions.empty()) return {};
  if (positions.back() >= static_cast<int64_t>(longest)) {
    return BadInput("logits: position {}, but the longest sequence has {} tokens", positions.back(),
                    longest);
  }
  return {};
}

Status CheckKeys(const json::Value& line) {
  static constexpr std::string_view kKeys[] = {"id",     "tokens", "batch", "prefill", "chunks",
                                               "logits", "mtp",    "taps",  "block",   "h"};
  for (const auto& [key, value] : line.members()) {
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      return BadInput(
          "{}: no such field; known are id, tokens, batch, prefill, chunks, logits, mtp, "
          "taps, block and h",
          key);
    }
  }
  return {};
}

Status ReadSchedule(const json::Value& line, TraceCase* trace) {
  size_t longest = 0;
  for (const auto& sequence : trace->sequences) longest = std::max(longest, sequence.size());
  const int64_t most = static_cast<int64_t>(longest);
  if (const json::Value* prefill = line.Find("prefill"); prefill != nullptr) {
    DSV4_ASSIGN(trace->prefill, ReadInt(*prefill, "prefill", 1, most));
  }
  if (const json::Value* chunks = line.Find("chunks"); chunks != nullptr) {
    if (trace->prefill || trace->batch) {
      return BadInput("chunks: not together with {}", trace->batch ? "batch" : "prefill");
    }
    DSV4_ASSIGN(trace->chunks, ReadInts(*chunks, "chunks", 1, most));
    const int64_t sum = std::accumulate(trace->chunks.begin(), trace->chunks.end(), int64_t{0});
    if (sum > most) return BadInput("chunks: {} tokens in all, the sequence has {}", sum, most);
  }
  if (const json::Value* mtp = line.Find("mtp"); mtp != nullptr) {
    if (!mtp->is_bool()) return BadInput("mtp: expected true or false, found {}", json::Dump(*mtp));
    trace->mtp = mtp->as_bool();
  }
  return {};
}

}  // namespace

int64_t TraceCase::most_rows() const {
  int64_t most = 1;
  if (kind == Kind::kSequences && !chunks.empty()) {
    return *std::max_element(chunks.begin(), chunks.end());
  }
  if (batch) most = 0;
  for (const auto& sequence : sequences) {
    const int64_t length = static_cast<int64_t>(sequence.size());
    const int64_t rows = prefill ? std::min(*prefill, length) : length;
    most = batch ? most + rows : std::max(most, rows);
  }
  return most;
}

Result<TraceCase> ParseTraceCase(const json::Value& line, const model::Model& model) {
  if (!line.is_object()) return BadInput("expected an object, found {}", KindName(line.kind()));
  DSV4_TRY(CheckKeys(line));
  const model::ModelConfig& config = model.config();
  TraceCase trace;
  const json::Value* id = line.Find("id");
  if (id == nullptr || !id->is_string() || id->as_string().empty()) {
    return BadInput("id: expected a string, found {}", id == nullptr ? "none" : json::Dump(*id));
  }
  trace.id = id->as_string();
  const json::Value* block = line.Find("block");
  if (block != nullptr) {
    DSV4_TRY(ReadBlock(*block, line.Find("h"), config, &trace));
    trace.logits.kind = LogitSelection::Kind::kNone;
  }
  if (trace.kind != TraceCase::Kind::kHead) {
    DSV4_TRY(ReadSequences(line, config, &trace));
  } else if (line.Find("tokens") != nullptr || line.Find("batch") != nullptr) {
    return BadInput("block: \"head\" takes its rows from h alone, without tokens");
  }
  DSV4_TRY(ReadSchedule(line, &trace));
  if (trace.kind != TraceCase::Kind::kSequences &&
      (trace.batch || trace.prefill || !trace.chunks.empty() || trace.mtp)) {
    return BadInput(
        "block: runs alone over all tokens; batch, prefill, chunks and mtp do not apply");
  }
  if (const json::Value* logits = line.Find("logits"); logits != nullptr) {
    DSV4_ASSIGN(trace.logits, ReadLogits(*logits));
    DSV4_TRY(CheckPositions(trace));
  }
  if (const json::Value* taps = line.Find("taps"); taps != nullptr) {
    if (trace.batch) return BadInput("taps: not for a batch");
    DSV4_TRY(ReadTaps(*taps, model, &trace));
  }
  if (trace.mtp && config.num_mtp_layers == 0) {
    return BadInput("mtp: the model has no MTP block");
  }
  return trace;
}

}  // namespace dsv4::tools
