// Lines typed at a terminal, with editing and history.
#pragma once

#include <histedit.h>

#include <filesystem>
#include <string>

namespace dsv4::tools {

class LineEditor {
 public:
  enum class Outcome { kLine, kEnd, kInterrupted };

  // Standard input and output must be terminals. The history is read from and written to `history`
  // (mode 0600, its folder made where it is missing); an empty path keeps none. What cannot be read
  // or written there is passed over.
  explicit LineEditor(std::filesystem::path history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // *line has no line end. kInterrupted: Ctrl-C, the line is dropped.
  Outcome Read(std::string* line);

 private:
  void Remember(const char* line);

  const std::filesystem::path history_path_;
  EditLine* const editor_;
  History* const history_;
};

// $XDG_STATE_HOME/dsv4/history, else ~/.local/state/dsv4/history, else empty.
std::filesystem::path HistoryPath();

}  // namespace dsv4::tools
