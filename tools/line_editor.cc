#include "tools/line_editor.h"

#include <fcntl.h>
#include <langinfo.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tools/signals.h"

namespace dsv4::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kHistoryLines = 1000;

char* Prompt(EditLine*) {
  static char prompt[] = ">>> ";
  return prompt;
}

// libedit takes the terminal's bytes for what the locale says; ours are UTF-8 even where none is
// set.
void UseUtf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

// Ctrl-C at the prompt is a key, not a signal: a signal that comes just before the editor waits for
// a key would be lost. One editor reads at a time.
bool interrupt_key = false;

unsigned char OnInterruptKey(EditLine*, int) {
  interrupt_key = true;
  return CC_EOF;
}

unsigned char OnSuspendKey(EditLine* editor, int) {
  el_set(editor, EL_PREP_TERM, 0);
  std::raise(SIGTSTP);
  el_set(editor, EL_PREP_TERM, 1);
  return CC_REDISPLAY;
}

bool MakeHistoryFile(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool made = ::fchmod(fd, 0600) == 0;
  ::close(fd);
  return made;
}

}  // namespace

fs::path HistoryPath() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "dsv4/history";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return fs::path(home) / ".local/state/dsv4/history";
  return {};
}

LineEditor::LineEditor(fs::path history)
    : history_path_(std::move(history)),
      editor_((UseUtf8(), el_init("dsv4", stdin, stdout, stderr))),
      history_(history_init()) {
  HistEvent event;
  ::history(history_, &event, H_SETSIZE, kHistoryLines);
  ::history(history_, &event, H_SETUNIQUE, 1);
  if (!history_path_.empty() && MakeHistoryFile(history_path_)) {
    ::history(history_, &event, H_LOAD, history_path_.c_str());
  }
  el_set(editor_, EL_PROMPT, &Prompt);
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, &::history, history_);
  el_set(editor_, EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor_, EL_ADDFN, "interrupt", "Drop the line", &OnInterruptKey);
  el_set(editor_, EL_ADDFN, "suspend", "Stop the program until it is called back", &OnSuspendKey);
  el_source(editor_, nullptr);
  el_set(editor_, EL_BIND, "^C", "interrupt", nullptr);
  el_set(editor_, EL_BIND, "^Z", "suspend", nullptr);
}

LineEditor::~LineEditor() {
  history_end(history_);
  el_end(editor_);
}

LineEditor::Outcome LineEditor::Read(std::string* line) {
  el_resize(editor_);
  const EditingScope scope;
  // Before the prompt shows: what is typed from then on is edited here, not by the terminal.
  el_set(editor_, EL_PREP_TERM, 1);
  int count = 0;
  errno = 0;
  interrupt_key = false;
  const char* text = el_gets(editor_, &count);
  if (text == nullptr || count <= 0) {
    const bool interrupted = interrupt_key || (count < 0 && errno == EINTR);
    if (interrupted) el_reset(editor_);
    std::fputc('\n', stdout);
    return interrupted ? Outcome::kInterrupted : Outcome::kEnd;
  }
  line->assign(text, static_cast<size_t>(std::char_traits<char>::length(text)));
  while (line->ends_with('\n') || line->ends_with('\r')) line->pop_back();
  if (!line->empty()) Remember(text);
  return Outcome::kLine;
}

void LineEditor::Remember(const char* line) {
  HistEvent event;
  ::history(history_, &event, H_ENTER, line);
  if (!history_path_.empty() && MakeHistoryFile(history_path_)) {
    ::history(history_, &event, H_SAVE, history_path_.c_str());
  }
}

}  // namespace dsv4::tools
