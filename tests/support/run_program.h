// Runs a program with given standard input, and waits for it.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace dsv4::testing {

struct ProgramResult {
  int exit_code = -1;  // -1 where a signal ended it
  std::string out, err;
};

// `command` is the program's path and its arguments.
inline ProgramResult RunProgram(std::vector<std::string> command, std::string_view input = {}) {
  const TempFolder folder;
  const std::string in = folder.Write("in", input).string();
  const std::string out = (folder / "out").string(), err = (folder / "err").string();
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;
    ::dup2(::open(in.c_str(), O_RDONLY), STDIN_FILENO);
    ::dup2(::open(out.c_str(), kWrite, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), kWrite, 0600), STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ProgramResult result;
  int status = 0;
  if (child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  }
  result.out = ReadFileText(out);
  result.err = ReadFileText(err);
  return result;
}

}  // namespace dsv4::testing
