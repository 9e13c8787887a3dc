#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <memory>

#include "base/check.h"
#include "checkpoint/safetensors.h"
#include "tools/trace_case.h"

namespace dsv4::tools {
namespace {

using model::Batch;
using model::KvCache;
using model::KvLayout;
using model::SequenceRun;

// Joins what a tap gives in each forward along the rows. Pieces may have different numbers of
// columns (index scores grow with the sequence): narrower ones are filled up with "not allowed".
class TapCollector : public model::TapSink {
 public:
  explicit TapCollector(const std::vector<std::string>& names) : names_(names) {}

  bool Wants(std::string_view name) const override {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

  void Tap(std::string_view name, DType dtype, std::span<const int64_t> shape,
           const void* data) override {
    Taken& taken = taken_[std::string(name)];
    taken.dtype = dtype;
    Piece piece{{shape.begin(), shape.end()}, {}};
    int64_t bytes = BitsPerElement(dtype) / 8;
    for (const int64_t d : shape) bytes *= d;
    const auto* begin = static_cast<const std::byte*>(data);
    piece.data.assign(begin, begin + bytes);
    taken.pieces.push_back(std::move(piece));
  }

  void AppendTo(const std::string& prefix, std::vector<NamedTensor>* tensors) const {
    for (const std::string& name : names_) {
      const auto taken = taken_.find(name);
      if (taken != taken_.end()) tensors->push_back(Join(prefix + name, taken->second));
    }
  }

 private:
  struct Piece {
    std::vector<int64_t> shape;
    std::vector<std::byte> data;
  };
  struct Taken {
    DType dtype = DType::kF32;
    std::vector<Piece> pieces;
  };

  static NamedTensor Join(std::string name, const Taken& taken) {
    NamedTensor joined{std::move(name), taken.dtype, taken.pieces[0].shape, {}};
    const size_t element = static_cast<size_t>(BitsPerElement(taken.dtype) / 8);
    int64_t rows = 0, last = 0;
    for (const Piece& piece : taken.pieces) {
      rows += piece.shape[0];
      last = std::max(last, piece.shape.back());
    }
    joined.shape.front() = rows;
    joined.shape.back() = last;
    std::vector<std::byte> fill(element);
    const float forbidden = -std::numeric_limits<float>::infinity();
    const int32_t none = -1;
    if (taken.dtype == DType::kF32) std::memcpy(fill.data(), &forbidden, element);
    if (taken.dtype == DType::kI32) std::memcpy(fill.data(), &none, element);
    for (const Piece& piece : taken.pieces) {
      const size_t width = static_cast<size_t>(piece.shape.back()) * element;
      const size_t lines =
          width == 0 ? static_cast<size_t>(piece.shape[0]) : piece.data.size() / width;
      for (size_t i = 0; i < lines; ++i) {
        joined.data.insert(joined.data.end(), piece.data.begin() + static_cast<int64_t>(i * width),
                           piece.data.begin() + static_cast<int64_t>((i + 1) * width));
        for (int64_t c = piece.shape.back(); c < last; ++c) {
          joined.data.insert(joined.data.end(), fill.begin(), fill.end());
        }
      }
    }
    return joined;
  }

  const std::vector<std::string>& names_;
  std::map<std::string, Taken> taken_;
};

NamedTensor FloatTensorOf(std::string name, std::vector<float> values, int64_t width) {
  NamedTensor tensor{std::move(name), DType::kF32, {}, {}};
  tensor.shape = {static_cast<int64_t>(values.size()) / width, width};
  tensor.data.resize(values.size() * sizeof(float));
  std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

bool Selected(const LogitSelection& selection, int64_t position, int64_t last) {
  switch (selection.kind) {
    case LogitSelection::Kind::kNone:
      return false;
    case LogitSelection::Kind::kAll:
      return true;
    case LogitSelection::Kind::kLast:
      return position == last;
    case LogitSelection::Kind::kPositions:
      return std::binary_search(selection.positions.begin(), selection.positions.end(), position);
  }
  return false;
}

// Runs sequences side by side, each in its own slot, and collects logits.
class SequenceRunner {
 public:
  SequenceRunner(model::Model& model, KvCache& cache, const TraceCase& trace)
      : model_(model), cache_(cache), trace_(trace), taps_(trace.taps) {
    const size_t count = trace.sequences.size();
    done_.resize(count);
    logits_.resize(count);
    mtp_logits_.resize(count);
    pages_.resize(count);
    int32_t page = 0;
    for (size_t s = 0; s < count; ++s) {
      const int64_t length = static_cast<int64_t>(trace.sequences[s].size());
      for (int64_t i = 0; i < KvLayout::PagesFor(length); ++i) pages_[s].push_back(page++);
    }
  }

  std::vector<NamedTensor> Run() {
    for (size_t chunk = 0; !Done(); ++chunk) {
      std::vector<int64_t> wanted(trace_.sequences.size());
      for (size_t s = 0; s < wanted.size(); ++s) wanted[s] = Wanted(s, chunk);
      RunRows(wanted);
    }
    std::vector<NamedTensor> tensors;
    const int64_t vocab = model_.config().vocab_size;
    for (size_t s = 0; s < trace_.sequences.size(); ++s) {
      const std::string prefix =
          trace_.batch ? fmt::format("{}/{}/", trace_.id, s) : fmt::format("{}/", trace_.id);
      if (trace_.logits.kind != LogitSelection::Kind::kNone) {
        tensors.push_back(FloatTensorOf(prefix + "logits", std::move(logits_[s]), vocab));
        if (trace_.mtp) {
          tensors.push_back(FloatTensorOf(prefix + "mtp_logits", std::move(mtp_logits_[s]), vocab));
        }
      }
      if (!trace_.batch) taps_.AppendTo(prefix, &tensors);
    }
    return tensors;
  }

 private:
  int64_t Left(size_t s) const {
    return static_cast<int64_t>(trace_.sequences[s].size()) - done_[s];
  }
  bool Done() const {
    for (size_t s = 0; s < done_.size(); ++s) {
      if (Left(s) > 0) return false;
    }
    return true;
  }
  // Rows of sequence s in forward number `chunk`: the prefill or the given chunks, then one by one.
  int64_t Wanted(size_t s, size_t chunk) const {
    int64_t wanted = 1;
    if (!trace_.chunks.empty()) {
      if (chunk < trace_.chunks.size()) wanted = trace_.chunks[chunk];
    } else if (chunk == 0) {
      wanted = trace_.prefill.value_or(Left(s));
    }
    return std::min(wanted, Left(s));
  }

  // One forward of `rows[s]` rows of each sequence; more forwards where the model's batch is
  // smaller.
  void RunRows(std::vector<int64_t> rows) {
    while (true) {
      int64_t budget = model_.max_rows();
      std::vector<int64_t> part(rows.size());
      int64_t total = 0;
      for (size_t s = 0; s < rows.size(); ++s) {
        part[s] = std::min(rows[s], budget);
        budget -= part[s];
        rows[s] -= part[s];
        total += part[s];
      }
      if (total == 0) return;
      Forward(part, total);
    }
  }

  void Forward(const std::vector<int64_t>& rows, int64_t total) {
    std::vector<int32_t> tokens, logit_rows;
    std::vector<SequenceRun> runs;
    std::vector<size_t> owner;  // of each logit row
    for (size_t s = 0; s < rows.size(); ++s) {
      if (rows[s] == 0) continue;
      const auto& sequence = trace_.sequences[s];
      const int64_t last = static_cast<int64_t>(sequence.size()) - 1;
      runs.push_back({static_cast<int32_t>(s), done_[s], static_cast<int32_t>(rows[s]), pages_[s]});
      for (int64_t p = done_[s]; p < done_[s] + rows[s]; ++p) {
        if (Selected(trace_.logits, p, last)) {
          logit_rows.push_back(static_cast<int32_t>(tokens.size()));
          owner.push_back(s);
        }
        tokens.push_back(sequence[static_cast<size_t>(p)]);
      }
    }
    const int64_t vocab = model_.config().vocab_size;
    std::vector<float> logits(logit_rows.size() * static_cast<size_t>(vocab));
    std::vector<Bf16> hidden;
    if (trace_.mtp) {
      hidden.resize(
          static_cast<size_t>(total * model_.config().hc_mult * model_.config().hidden_size));
    }
    model_.Forward({tokens, runs, logit_rows}, cache_,
                   {logits.data(), trace_.mtp ? hidden.data() : nullptr, &taps_});
    Distribute(logits, owner, &logits_);
    if (trace_.mtp) ForwardMtp(rows, hidden);
    for (size_t s = 0; s < rows.size(); ++s) done_[s] += rows[s];
  }

  // MTP over the rows whose next token is known, on the H of the forward just run.
  void ForwardMtp(const std::vector<int64_t>& rows, const std::vector<Bf16>& hidden) {
    const int64_t row_elements = int64_t{model_.config().hc_mult} * model_.config().hidden_size;
    std::vector<int32_t> tokens, logit_rows;
    std::vector<SequenceRun> runs;
    std::vector<size_t> owner;
    std::vector<Bf16> known;
    const Bf16* h = hidden.data();
    for (size_t s = 0; s < rows.size(); ++s) {
      const auto& sequence = trace_.sequences[s];
      const int64_t last = static_cast<int64_t>(sequence.size()) - 2;
      const int64_t count = std::min(rows[s], last + 1 - done_[s]);
      if (count > 0) {
        runs.push_back({static_cast<int32_t>(s), done_[s], static_cast<int32_t>(count), pages_[s]});
        for (int64_t p = done_[s]; p < done_[s] + count; ++p) {
          if (Selected(trace_.logits, p, last)) {
            logit_rows.push_back(static_cast<int32_t>(tokens.size()));
            owner.push_back(s);
          }
          tokens.push_back(sequence[static_cast<size_t>(p + 1)]);
        }
        known.insert(known.end(), h, h + count * row_elements);
      }
      h += rows[s] * row_elements;
    }
    if (runs.empty()) return;
    std::vector<float> logits(logit_rows.size() * static_cast<size_t>(model_.config().vocab_size));
    model_.ForwardMtp(0, {tokens, runs, logit_rows}, known.data(), cache_,
                      {logits.data(), nullptr, &taps_});
    Distribute(logits, owner, &mtp_logits_);
  }

  void Distribute(const std::vector<float>& logits, const std::vector<size_t>& owner,
                  std::vector<std::vector<float>>* per_sequence) {
    const int64_t vocab = model_.config().vocab_size;
    for (size_t i = 0; i < owner.size(); ++i) {
      const auto row = logits.begin() + static_cast<int64_t>(i) * vocab;
      std::vector<float>& target = (*per_sequence)[owner[i]];
      target.insert(target.end(), row, row + vocab);
    }
  }

  model::Model& model_;
  KvCache& cache_;
  const TraceCase& trace_;
  TapCollector taps_;
  std::vector<int64_t> done_;
  std::vector<std::vector<float>> logits_, mtp_logits_;
  std::vector<std::vector<int32_t>> pages_;
};

// The H of a block or head case: bf16 [rows, hc, hidden].
Result<std::vector<Bf16>> LoadHidden(const model::ModelConfig& config, const TraceCase& trace) {
  DSV4_ASSIGN(const Checkpoint file, Checkpoint::Open(trace.h_file));
  const TensorInfo* tensor = file.Find(trace.h_tensor);
  if (tensor == nullptr) {
    return BadInput("h: {} holds no tensor {}", trace.h_file.string(), trace.h_tensor);
  }
  const bool shape_ok = tensor->shape.size() == 3 && tensor->shape[1] == config.hc_mult &&
                        tensor->shape[2] == config.hidden_size && tensor->shape[0] > 0;
  if (tensor->dtype != DType::kBF16 || !shape_ok) {
    return BadInput("h: {}: expected BF16 [rows, {}, {}], found {}", trace.h_tensor, config.hc_mult,
                    config.hidden_size, tensor->TypeText());
  }
  std::vector<Bf16> hidden(tensor->data.size() / sizeof(Bf16));
  std::memcpy(hidden.data(), tensor->data.data(), tensor->data.size());
  return hidden;
}

std::vector<float> SelectRows(const std::vector<float>& logits, const LogitSelection& selection,
                              int64_t num_rows, int64_t vocab) {
  std::vector<float> picked;
  for (int64_t p = 0; p < num_rows; ++p) {
    if (!Selected(selection, p, num_rows - 1)) continue;
    picked.insert(picked.end(), logits.begin() + p * vocab, logits.begin() + (p + 1) * vocab);
  }
  return picked;
}

// One block alone over all rows, from empty state. For an MTP block the tokens are the next ones,
// one for each row of H, or the sequence itself, one more than the rows.
Result<std::vector<NamedTensor>> RunBlockCase(model::Model& model, const TraceCase& trace) {
  const model::ModelConfig& config = model.config();
  const int64_t row_elements = int64_t{config.hc_mult} * config.hidden_size;
  std::vector<int32_t> tokens = trace.sequences[0];
  const bool is_mtp = config.is_mtp(trace.block);
  std::vector<Bf16> hidden;
  if (!trace.h_file.empty()) {
    DSV4_ASSIGN(hidden, LoadHidden(config, trace));
    const size_t rows = hidden.size() / static_cast<size_t>(row_elements);
    if (is_mtp && tokens.size() == rows + 1) tokens.erase(tokens.begin());
    if (tokens.size() != rows) {
      return BadInput("tokens: {} for an H of {} rows", tokens.size(), rows);
    }
  } else {
    hidden = model.EmbedRows(tokens);
  }
  const int64_t num_rows = static_cast<int64_t>(tokens.size());
  std::vector<int32_t> pages;
  for (int32_t i = 0; i < KvLayout::PagesFor(num_rows); ++i) pages.push_back(i);
  DSV4_ASSIGN(KvCache cache, KvCache::Create(config, 1, static_cast<int32_t>(pages.size())));

  const bool wants_logits = trace.logits.kind != LogitSelection::Kind::kNone;
  const std::vector<std::string> default_taps = {
      is_mtp ? fmt::format("M{}.H", trace.block - config.num_layers)
             : fmt::format("L{}.H", trace.block)};
  TapCollector taps(trace.taps.empty() ? default_taps : trace.taps);
  std::vector<float> logits;
  for (int64_t start = 0; start < num_rows; start += model.max_rows()) {
    const int64_t count = std::min<int64_t>(model.max_rows(), num_rows - start);
    const SequenceRun run{0, start, static_cast<int32_t>(count), pages};
    const std::span<const int32_t> part(tokens.data() + start, static_cast<size_t>(count));
    Bf16* h = hidden.data() + start * row_elements;
    std::vector<int32_t> rows(wants_logits ? static_cast<size_t>(count) : 0);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
    std::vector<float> part_logits(rows.size() * static_cast<size_t>(config.vocab_size));
    if (is_mtp) {
      model.ForwardMtp(trace.block - config.num_layers, {part, {&run, 1}, rows}, h, cache,
                       {part_logits.data(), nullptr, &taps});
    } else {
      model.ForwardBlock(trace.block, {part, {&run, 1}, {}}, h, cache, &taps);
      if (wants_logits) model.ForwardHead(h, count, part_logits.data());
    }
    logits.insert(logits.end(), part_logits.begin(), part_logits.end());
  }
  std::vector<NamedTensor> tensors;
  if (wants_logits) {
    tensors.push_back(FloatTensorOf(
        fmt::format("{}/{}", trace.id, is_mtp ? "mtp_logits" : "logits"),
        SelectRows(logits, trace.logits, num_rows, config.vocab_size), config.vocab_size));
  }
  taps.AppendTo(trace.id + "/", &tensors);
  return tensors;
}

Result<std::vector<NamedTensor>> RunHeadCase(model::Model& model, const TraceCase& trace) {
  const model::ModelConfig& config = model.config();
  DSV4_ASSIGN(const std::vector<Bf16> hidden, LoadHidden(config, trace));
  const int64_t row_elements = int64_t{config.hc_mult} * config.hidden_size;
  const int64_t num_rows = static_cast<int64_t>(hidden.size()) / row_elements;
  std::vector<float> logits(static_cast<size_t>(num_rows * config.vocab_size));
  for (int64_t start = 0; start < num_rows; start += model.max_rows()) {
    model.ForwardHead(hidden.data() + start * row_elements,
                      std::min<int64_t>(model.max_rows(), num_rows - start),
                      logits.data() + start * config.vocab_size);
  }
  LogitSelection selection = trace.logits;
  if (selection.kind == LogitSelection::Kind::kNone) selection.kind = LogitSelection::Kind::kAll;
  std::vector<NamedTensor> tensors;
  tensors.push_back(FloatTensorOf(trace.id + "/logits",
                                  SelectRows(logits, selection, num_rows, config.vocab_size),
                                  config.vocab_size));
  return tensors;
}

}  // namespace

Result<std::vector<NamedTensor>> RunTraceCase(model::Model& model, const TraceCase& trace) {
  if (trace.kind == TraceCase::Kind::kBlock) return RunBlockCase(model, trace);
  if (trace.kind == TraceCase::Kind::kHead) return RunHeadCase(model, trace);
  int64_t pages = 0;
  for (const auto& sequence : trace.sequences) {
    pages += KvLayout::PagesFor(static_cast<int64_t>(sequence.size()));
  }
  DSV4_ASSIGN(KvCache cache,
              KvCache::Create(model.config(), static_cast<int32_t>(trace.sequences.size()),
                              static_cast<int32_t>(pages)));
  return SequenceRunner(model, cache, trace).Run();
}

}  // namespace dsv4::tools
