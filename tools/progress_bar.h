// The bar that long operations draw on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "base/progress.h"

namespace dsv4::tools {

// One line, redrawn in place and erased at the end:
//   synth  42% [=========>            ] 1.10G of 2.60G  314M/s  5 s left
// Draws nothing in the first moments, so that short tasks leave no trace. One thread at a time.
class ProgressBar : public Progress {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  struct Options {
    bool enabled = false;  // draws nothing otherwise
    bool color = false;
    int columns = 80;
    std::FILE* out = stderr;
    Clock now = std::chrono::steady_clock::now;
  };

  // For standard error: enabled where both standard error and standard output are terminals
  // that know escape sequences and `quiet` is not set; in colour unless NO_COLOR is set.
  static Options ForTerminal(bool quiet);

  explicit ProgressBar(bool quiet) : ProgressBar(ForTerminal(quiet)) {}
  explicit ProgressBar(Options options);
  ~ProgressBar() override;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Start(std::string_view what, uint64_t total) override;
  void Update(uint64_t done) override;
  void Finish() override;

 private:
  void Draw(uint64_t done, std::chrono::steady_clock::time_point now);
  void Erase();
  void Write(std::string_view text);

  const Options options_;
  std::string what_;
  uint64_t total_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_draw_;
  bool running_ = false;
  bool drawn_ = false;
};

// The text of the bar, no longer than `columns`, without colour. `seconds` since the start.
std::string ProgressText(std::string_view what, uint64_t done, uint64_t total, double seconds,
                         int columns);

}  // namespace dsv4::tools
