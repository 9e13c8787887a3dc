#include "checkpoint/synth.h"

#include <algorithm>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/header.h"
#include "checkpoint/index.h"
#include "platform/mmap_file.h"
#include "platform/output_file.h"

namespace dsv4 {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{8} << 20;

// Consecutive tensors and where each one's data begins in the shard.
struct Shard {
  std::span<const SynthTensor> tensors;
  std::vector<uint64_t> begins;
  uint64_t bytes = 0;
};

// A shard that holds a tensor is closed when the next one would bring its data above `shard_bytes`.
std::vector<Shard> CutIntoShards(std::span<const SynthTensor> tensors, uint64_t shard_bytes) {
  std::vector<Shard> shards;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = tensors[i].num_bytes();
    if (shards.empty() || shards.back().bytes + bytes > shard_bytes) {
      shards.push_back({tensors.subspan(i, 0), {}, 0});
    }
    Shard& shard = shards.back();
    shard.tensors = std::span(shard.tensors.data(), shard.tensors.size() + 1);
    shard.begins.push_back(shard.bytes);
    shard.bytes += bytes;
  }
  return shards;
}

std::string ShardName(size_t number, size_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, count);
}

std::string HeaderOf(const Shard& shard) {
  std::vector<TensorInfo> infos;
  infos.reserve(shard.tensors.size());
  for (const SynthTensor& tensor : shard.tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, {}, 0});
  }
  return SafetensorsHeader(infos);
}

// Bytes [first, first + out.size()) of the shard's data.
void FillShard(const Shard& shard, uint64_t seed, uint64_t first, std::span<std::byte> out) {
  const auto after = std::upper_bound(shard.begins.begin(), shard.begins.end(), first);
  auto i = static_cast<size_t>(after - shard.begins.begin()) - 1;
  for (; !out.empty(); ++i) {
    const uint64_t skipped = first - shard.begins[i];
    const uint64_t taken = std::min<uint64_t>(out.size(), shard.tensors[i].num_bytes() - skipped);
    FillSynthTensor(shard.tensors[i], seed, skipped, out.first(taken));
    out = out.subspan(taken);
    first += taken;
  }
}

class Writer {
 public:
  Writer(const SynthOptions& options, Progress& progress) : options_(options), progress_(progress) {
    for (std::vector<std::byte>& piece : pieces_) piece.resize(kPieceBytes);
  }

  Status WriteShard(const fs::path& path, const Shard& shard) {
    DSV4_ASSIGN(OutputFile file, OutputFile::Create(path));
    DSV4_TRY(file.Write(HeaderOf(shard)));
    // While one piece is written the next is computed.
    std::future<std::span<const std::byte>> next = Compute(shard, 0, 0);
    for (uint64_t done = 0, turn = 1; done < shard.bytes; ++turn) {
      const std::span<const std::byte> piece = next.get();
      if (options_.stop != nullptr && options_.stop->load()) return Failed("interrupted");
      done += piece.size();
      if (done < shard.bytes) next = Compute(shard, done, turn);
      DSV4_TRY(file.Write(piece));
      written_ += piece.size();
      progress_.Update(written_);
    }
    return file.Commit();
  }

 private:
  std::future<std::span<const std::byte>> Compute(const Shard& shard, uint64_t first,
                                                  uint64_t turn) {
    const std::span out =
        std::span(pieces_[turn % 2]).first(std::min<uint64_t>(kPieceBytes, shard.bytes - first));
    return std::async(std::launch::async, [&shard, first, out, seed = options_.seed] {
      FillShard(shard, seed, first, out);
      return std::span<const std::byte>(out);
    });
  }

  const SynthOptions& options_;
  Progress& progress_;
  std::vector<std::byte> pieces_[2];
  uint64_t written_ = 0;
};

std::string IndexText(std::span<const Shard> shards, uint64_t data_bytes) {
  std::string text = fmt::format(R"({{"metadata":{{"total_size":{}}},"weight_map":{{)", data_bytes);
  bool first = true;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = ShardName(i, shards.size());
    for (const SynthTensor& tensor : shards[i].tensors) {
      text += fmt::format("{}{}:\"{}\"", first ? "" : ",", json::Quote(tensor.name), file);
      first = false;
    }
  }
  return text + "}}\n";
}

}  // namespace

Status WriteSynth(const SynthModel& model, const SynthOptions& options, Progress& progress) {
  if (!options.tokenizer.empty()) DSV4_TRY(MappedFile::Open(options.tokenizer));
  DSV4_ASSIGN(OutputFolder folder,
              OutputFolder::Create(options.out, options.replace ? OutputFolder::Existing::kReplace
                                                                : OutputFolder::Existing::kEmpty));
  DSV4_TRY(folder.CheckSpace(model.data_bytes()));
  const std::vector<Shard> shards = CutIntoShards(model.tensors(), options.shard_bytes);
  progress.Start("synth", model.data_bytes());
  Writer writer(options, progress);
  Status status;
  for (size_t i = 0; i < shards.size() && status; ++i) {
    status = writer.WriteShard(folder.temporary() / ShardName(i, shards.size()), shards[i]);
  }
  progress.Finish();
  DSV4_TRY(status);
  DSV4_TRY(WriteTextFile(folder.temporary() / kIndexFile, IndexText(shards, model.data_bytes())));
  DSV4_TRY(WriteTextFile(folder.temporary() / "config.json", model.config_json()));
  if (!options.tokenizer.empty()) {
    std::error_code error;
    fs::copy_file(options.tokenizer, folder.temporary() / "tokenizer.json", error);
    if (error)
      return Failed("{}: cannot be copied: {}", options.tokenizer.string(), error.message());
  }
  return folder.Commit();
}

}  // namespace dsv4
