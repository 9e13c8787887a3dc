#include "tools/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tools/terminal_style.h"

namespace dsv4::tools {
namespace {

constexpr std::chrono::milliseconds kFirstDraw{300};
constexpr std::chrono::milliseconds kDrawEvery{100};
constexpr int kMaxBar = 40;

// Three digits and a decimal suffix: 999, 1.20k, 34.5M.
std::string Count(double value) {
  constexpr std::string_view kSuffixes = "kMGTPE";
  if (value < 999.5) return fmt::format("{:.0f}", value);
  size_t suffix = 0;
  for (value /= 1000; value >= 999.5 && suffix + 1 < kSuffixes.size(); ++suffix) value /= 1000;
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, kSuffixes[suffix]);
}

std::string Duration(double seconds) {
  const int64_t s = std::llround(seconds);
  if (s < 120) return fmt::format("{} s", s);
  if (s < 7200) return fmt::format("{} min", (s + 30) / 60);
  return fmt::format("{} h", (s + 1800) / 3600);
}

}  // namespace

std::string ProgressText(std::string_view what, uint64_t done, uint64_t total, double seconds,
                         int columns) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string tail = Count(static_cast<double>(done));
  std::string head = fmt::format("{} ", what);
  double share = 0;
  if (total > 0) {
    done = std::min(done, total);
    share = static_cast<double>(done) / static_cast<double>(total);
    head += fmt::format("{:3.0f}% ", share * 100);
    tail += fmt::format(" of {}", Count(static_cast<double>(total)));
  }
  if (rate > 0) {
    tail += fmt::format("  {}/s", Count(rate));
    if (total > done) {
      tail += fmt::format("  {} left", Duration(static_cast<double>(total - done) / rate));
    }
  }
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 3;
  std::string text = std::move(head);
  if (total > 0 && room >= 10) {
    const auto width = static_cast<size_t>(std::min(room, kMaxBar));
    const auto filled = static_cast<size_t>(share * static_cast<double>(width));
    std::string bar(width, ' ');
    std::fill_n(bar.begin(), filled, '=');
    if (filled < width) bar[filled] = '>';
    text += fmt::format("[{}] ", bar);
  }
  text += tail;
  text.resize(std::min(text.size(), static_cast<size_t>(std::max(columns, 0))));
  return text;
}

ProgressBar::Options ProgressBar::ForTerminal(bool quiet) {
  Options options;
  options.enabled =
      !quiet && isatty(STDERR_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && TerminalTakesEscapes();
  options.color = ColorIsWelcome();
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.columns = size.ws_col - 1;  // a full line would wrap on some terminals
  }
  return options;
}

ProgressBar::ProgressBar(Options options) : options_(std::move(options)) {}

ProgressBar::~ProgressBar() { Erase(); }

void ProgressBar::Start(std::string_view what, uint64_t total) {
  Finish();
  if (!options_.enabled) return;
  what_ = what;
  total_ = total;
  start_ = options_.now();
  next_draw_ = start_ + kFirstDraw;
  running_ = true;
}

void ProgressBar::Update(uint64_t done) {
  if (!running_) return;
  const auto now = options_.now();
  if (now < next_draw_) return;
  next_draw_ = now + kDrawEvery;
  Draw(done, now);
}

void ProgressBar::Finish() {
  running_ = false;
  Erase();
}

void ProgressBar::Draw(uint64_t done, std::chrono::steady_clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string text = ProgressText(what_, done, total_, seconds, options_.columns);
  const std::string_view on = options_.color ? "\x1b[36m" : "";
  const std::string_view off = options_.color ? "\x1b[0m" : "";
  Write(fmt::format("\r\x1b[K{}{}{}", on, text, off));
  drawn_ = true;
}

void ProgressBar::Erase() {
  if (!drawn_) return;
  Write("\r\x1b[K");
  drawn_ = false;
}

// A terminal that went away is no reason to fail: the work goes on, or whoever does it is told.
void ProgressBar::Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), options_.out);
  std::fflush(options_.out);
}

}  // namespace dsv4::tools
