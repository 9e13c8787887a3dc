#include "platform/preload.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "platform/file_pages.h"
#include "platform/thread_pool.h"

namespace dsv4 {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;

// A disk wants several requests at a time, also where few cores compute.
constexpr int kLeastThreads = 4;

struct Piece {
  size_t file = 0;
  std::span<const std::byte> bytes;
};

std::vector<Piece> CutIntoPieces(std::span<const MappedFile> files) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < files.size(); ++i) {
    for (std::span<const std::byte> rest = files[i].bytes(); !rest.empty();) {
      const size_t bytes = std::min(rest.size(), kPieceBytes);
      pieces.push_back({i, rest.first(bytes)});
      rest = rest.subspan(bytes);
    }
  }
  return pieces;
}

// Reads pieces on all threads of a pool until all are read, one fails or a stop is asked for.
class Reader {
 public:
  Reader(std::span<const std::filesystem::path> paths, const std::atomic<bool>* stop,
         Progress& progress)
      : paths_(paths), stop_(stop), progress_(progress) {}

  Status Read(std::span<const Piece> pieces, ThreadPool& pool) {
    pool.For(static_cast<int64_t>(pieces.size()), 1, [&](int64_t begin, int64_t, int thread) {
      if (done_reading()) return;
      const Piece& piece = pieces[static_cast<size_t>(begin)];
      Status status = ReadPages(piece.bytes);
      if (!status) KeepFirst(Within(paths_[piece.file].string(), std::move(status).error()));
      const uint64_t bytes = read_.fetch_add(piece.bytes.size()) + piece.bytes.size();
      if (thread == 0) progress_.Update(bytes);
    });
    if (stopped()) return Failed("interrupted");
    return std::move(status_);
  }

 private:
  bool stopped() const { return stop_ != nullptr && stop_->load(); }
  bool done_reading() const { return stopped() || failed_.load(); }
  void KeepFirst(Status status) {
    const std::lock_guard lock(mutex_);
    if (!failed_.exchange(true)) status_ = std::move(status);
  }

  std::span<const std::filesystem::path> paths_;
  const std::atomic<bool>* stop_;
  Progress& progress_;
  std::atomic<uint64_t> read_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;  // guarded by mutex_
};

}  // namespace

Result<PreloadedFiles> PreloadedFiles::Read(std::span<const std::filesystem::path> paths,
                                            int64_t available_bytes, const PreloadOptions& options,
                                            Progress& progress) {
  PreloadedFiles result;
  for (const std::filesystem::path& path : paths) {
    DSV4_ASSIGN(MappedFile file, MappedFile::Open(path));
    result.files_.push_back(std::move(file));
  }
  if (result.bytes() > available_bytes) {
    return DoesNotFit("the weights take {} MiB, {} MiB of memory are available",
                      result.bytes() >> 20, available_bytes >> 20);
  }
  // Before anything is read: a limit that is too low is known at once.
  if (options.lock) DSV4_TRY(LockPages(result.Mappings()));
  const std::vector<Piece> pieces = CutIntoPieces(result.files_);
  progress.Start(options.lock ? "locking" : "preload", static_cast<uint64_t>(result.bytes()));
  ThreadPool pool(std::max(options.num_threads, kLeastThreads));
  Status status = Reader(paths, options.stop, progress).Read(pieces, pool);
  progress.Finish();
  if (!status) return std::unexpected(std::move(status).error());
  return result;
}

std::vector<std::span<const std::byte>> PreloadedFiles::Mappings() const {
  std::vector<std::span<const std::byte>> mappings;
  for (const MappedFile& file : files_) mappings.push_back(file.bytes());
  return mappings;
}

int64_t PreloadedFiles::bytes() const {
  int64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += static_cast<int64_t>(file.bytes().size());
  return bytes;
}

}  // namespace dsv4
