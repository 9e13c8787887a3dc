// Runs a program at a pseudo-terminal and talks with it.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dsv4::testing {

class Terminal {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  Terminal(std::vector<std::string> command, const Environment& environment) {
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 200;
    child_ = ::forkpty(&fd_, nullptr, nullptr, &size);
    if (child_ == 0) {
      ::signal(SIGHUP, SIG_DFL);  // also where the tests run under nohup
      ::setenv("TERM", "xterm", 1);
      ::unsetenv("NO_COLOR");
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    ::close(fd_);
  }

  pid_t child() const { return child_; }
  // Whether the terminal shows what is typed and takes it by lines, as a shell expects it.
  bool IsCooked() const {
    termios settings{};
    constexpr tcflag_t kCooked = ECHO | ICANON | ISIG;
    return ::tcgetattr(fd_, &settings) == 0 && (settings.c_lflag & kCooked) == kCooked;
  }
  void Type(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written <= 0) return;
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  // Reads until `text` has come since the last call; false where it does not within the time.
  bool WaitFor(std::string_view text) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (screen_.find(text, seen_) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end || !ReadSome()) return false;
    }
    seen_ = screen_.find(text, seen_) + text.size();
    return true;
  }
  // The terminal goes away, as that of a closed window: SIGHUP, and errors from then on.
  void HangUp() { ::close(std::exchange(fd_, -1)); }
  // The exit code once the program ended; -1 where it does not or a signal ended it.
  int Wait() {
    while (ReadSome()) {
    }
    int status = 0;
    if (::waitpid(child_, &status, 0) != child_ || !WIFEXITED(status)) return -1;
    child_ = -1;
    return WEXITSTATUS(status);
  }
  // All that was printed, echo included.
  const std::string& screen() const { return screen_; }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  bool ReadSome() {
    if (fd_ < 0) return false;
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(kPatience.count()) * 1000) <= 0) return false;
    char buffer[4096];
    const ssize_t count = ::read(fd_, buffer, sizeof buffer);
    if (count <= 0) return false;
    screen_.append(buffer, static_cast<size_t>(count));
    return true;
  }

  pid_t child_ = -1;
  int fd_ = -1;
  std::string screen_;
  size_t seen_ = 0;
};

}  // namespace dsv4::testing
