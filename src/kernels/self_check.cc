// SelfCheck of dispatch.h: sizes first, since a wrong one would make the rest write out of bounds.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/self_check_answers.h"
#include "kernels/self_check_entries.h"

namespace dsv4::kernels {
namespace {

constexpr std::byte kGuard{0xA5};
constexpr int64_t kBufferBytes = int64_t{1} << 19;
constexpr int64_t kMaxClaim = kBufferBytes / 4;

std::vector<std::byte> GuardedBuffer() {
  return std::vector<std::byte>(static_cast<size_t>(kBufferBytes), kGuard);
}

bool UntouchedFrom(const std::vector<std::byte>& buffer, int64_t begin) {
  return std::all_of(buffer.begin() + begin, buffer.end(), [](std::byte b) { return b == kGuard; });
}

// The second of two prepared rows stands where the size says, and nothing is written behind it.
Status CheckPreparedRowBytes(const Kernels& kernels, Activation activation) {
  constexpr int64_t kCols = 192;
  const int64_t bytes = kernels.prepared_row_bytes(activation, kCols, 128);
  if (bytes <= 0 || bytes > kMaxClaim) {
    return Failed("kernel set {}: prepared_row_bytes gives {} for {} columns", kernels.name, bytes,
                  kCols);
  }
  std::vector<Bf16> x(2 * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = ToBf16(static_cast<float>(i % 100) - 50.0f);
  std::vector<std::byte> both = GuardedBuffer();
  std::vector<std::byte> second = GuardedBuffer();
  PrepareArgs args{.x = x.data(),
                   .x_stride = kCols,
                   .num_rows = 2,
                   .cols = kCols,
                   .activation = activation,
                   .block = 128,
                   .prepared = both.data()};
  kernels.prepare(args);
  args.x += kCols;
  args.num_rows = 1;
  args.prepared = second.data();
  kernels.prepare(args);
  if (!UntouchedFrom(both, 2 * bytes) || !UntouchedFrom(second, bytes) ||
      std::memcmp(both.data() + bytes, second.data(), static_cast<size_t>(bytes)) != 0) {
    return Failed("kernel set {}: prepared_row_bytes gives {}, but prepare writes other bytes",
                  kernels.name, bytes);
  }
  return {};
}

Status CheckScratchBytes(const Kernels& kernels) {
  constexpr int32_t kHeads = 2;
  const KvRowLayout layout{128, 64, false};
  const int64_t bytes = kernels.sparse_attention_scratch_bytes(kHeads, layout);
  if (bytes < 0 || bytes > kMaxClaim) {
    return Failed("kernel set {}: sparse_attention_scratch_bytes gives {}", kernels.name, bytes);
  }
  std::vector<Bf16> values(static_cast<size_t>(kHeads * layout.width), ToBf16(1.0f));
  const std::vector<const std::byte*> rows(64, reinterpret_cast<const std::byte*>(values.data()));
  std::vector<Bf16> output(values.size());
  const float sink[kHeads] = {};
  std::vector<std::byte> scratch = GuardedBuffer();
  kernels.sparse_attention({.q = values.data(),
                            .num_heads = kHeads,
                            .layout = layout,
                            .rows = rows.data(),
                            .num_rows = static_cast<int64_t>(rows.size()),
                            .sink = sink,
                            .output = output.data(),
                            .scratch = scratch.data()});
  if (!UntouchedFrom(scratch, bytes)) {
    return Failed(
        "kernel set {}: sparse_attention writes beyond the {} bytes of "
        "sparse_attention_scratch_bytes",
        kernels.name, bytes);
  }
  return {};
}

Status CompareDigests(const Kernels& kernels, const Answer& answer, const Digests& digests) {
  if (static_cast<int>(digests.size()) != answer.num_digests) {
    return Failed("self-check of {}: {} digests, expected {}", answer.entry, digests.size(),
                  answer.num_digests);
  }
  for (size_t i = 0; i < digests.size(); ++i) {
    const double want = answer.digests[i];
    if (!(std::fabs(digests[i] - want) <= answer.tolerance * std::max(1.0, std::fabs(want)))) {
      return Failed("kernel set {}: {}{} answers wrongly: digest {} is {}, expected {}",
                    kernels.name, answer.entry, answer.entry == "product" ? " (or prepare)" : "", i,
                    digests[i], want);
    }
  }
  return {};
}

}  // namespace

Status SelfCheck(const Kernels& kernels) {
  DSV4_TRY(CheckPreparedRowBytes(kernels, Activation::kQuantized));
  DSV4_TRY(CheckPreparedRowBytes(kernels, Activation::kPlain));
  DSV4_TRY(CheckScratchBytes(kernels));
  for (const EntryCheck& check : EntryChecks()) {
    const auto* const answer = std::ranges::find(kAnswers, check.entry, &Answer::entry);
    if (answer == std::end(kAnswers)) return Failed("no self-check answer for {}", check.entry);
    DSV4_TRY(CompareDigests(kernels, *answer, check.run(kernels)));
  }
  return {};
}

}  // namespace dsv4::kernels
