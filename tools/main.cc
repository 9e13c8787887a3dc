#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>

#include "tools/commands.h"
#include "tools/standard_io.h"
#include "tools/version.h"

namespace dsv4::tools {
namespace {

constexpr AddCommand kCommands[] = {
    AddConvert, AddSynth, AddEncode, AddParse, AddTokenize, AddDetokenize,
    AddInspect, AddOps,   AddTrace,  AddBench, AddGenerate, AddChat,
    nullptr,  // ends the table
};

int ExitCodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFailed:
      return kExitFailed;
    case ErrorKind::kUsage:
      return kExitUsage;
    case ErrorKind::kBadInput:
      return kExitBadInput;
    case ErrorKind::kDoesNotFit:
      return kExitDoesNotFit;
  }
  return kExitFailed;
}

// What is told of a word that stands where one of the verbs of `app` should; empty where none does.
std::string UnknownVerb(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  if (!given.empty()) return UnknownVerb(*given.front());
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_name().empty()) verbs.push_back(verb->get_name());  // option groups have none
  }
  const std::vector<std::string> words = app.remaining();
  if (verbs.empty() || words.empty()) return {};
  const CLI::App* const parent = app.get_parent();
  const std::string name = (parent ? parent->get_name() + " " : "") + app.get_name();
  return fmt::format("{}: there is no {} {}; there are the verbs {} ({} --help tells of them)\n",
                     name, words.front().starts_with('-') ? "option" : "verb", words.front(),
                     fmt::join(verbs, ", "), name);
}

// What the standard library throws where the system has no more to give.
Status Run(const Selected& selected) {
  try {
    return selected();
  } catch (const std::bad_alloc&) {
    return DoesNotFit("there is not enough memory");
  } catch (const std::exception& error) {
    return Failed("{}", error.what());
  }
}

int Main(int argc, char** argv) {
  // A closed pipe is an error of the write, not a reason to die without a word.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app{"dsv4: a native engine for DeepSeek-V4", "dsv4"};
  app.require_subcommand(1);
  app.set_version_flag("--version", VersionText);
  app.footer("Exit codes: 0 done, 1 failed, 2 usage, 3 bad input or model, 4 does not fit.");
  Selected selected;
  for (const AddCommand add : kCommands) {
    if (add != nullptr) add(app, &selected);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = error.get_exit_code() == 0 ? "" : UnknownVerb(app);
    if (!unknown.empty()) {
      WriteStandardError(unknown);
      return kExitUsage;
    }
    if (app.exit(error) != 0) return kExitUsage;
    if (std::cout.flush()) return kExitDone;
    std::fputs("dsv4: standard output cannot be written\n", stderr);
    return kExitFailed;
  }
  const Status status = Run(selected);
  if (std::fflush(stdout) != 0 && status) {
    std::fputs("dsv4: standard output cannot be written\n", stderr);
    return kExitFailed;
  }
  if (!status) {
    // Not fmt::print, which throws where standard error is closed.
    WriteStandardError(fmt::format("dsv4: {}\n", status.error().message));
    return ExitCodeOf(status.error().kind);
  }
  return kExitDone;
}

}  // namespace
}  // namespace dsv4::tools

int main(int argc, char** argv) { return dsv4::tools::Main(argc, argv); }
