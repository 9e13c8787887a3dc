#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "tools/commands.h"
#include "tools/signals.h"
#include "tools/standard_io.h"
#include "tools/version.h"

namespace dsv4::tools {
namespace {

// In the order in which --help lists them.
constexpr AddCommand kCommands[] = {
    AddChat,       AddGenerate, AddInspect, AddEncode, AddParse, AddTokenize,
    AddDetokenize, AddSynth,    AddConvert, AddTrace,  AddBench, AddOps,
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

// "dsv4 ops list"
std::string CommandOf(const CLI::App& app) {
  const CLI::App* const parent = app.get_parent();
  return (parent == nullptr ? "" : CommandOf(*parent) + " ") + app.get_name();
}

// What is told of a command line that cannot be parsed. The parser names what is missing first; the
// word that nobody expected is why more often than not.
std::string UsageText(const CLI::App& app, const CLI::Error& error) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  if (!given.empty()) return UsageText(*given.front(), error);
  const std::string name = CommandOf(app);
  const std::vector<std::string> words = app.remaining();
  if (words.empty()) {
    return fmt::format("{}: {} ({} --help tells more)\n", name, error.what(), name);
  }
  const bool is_option = words.front().starts_with('-');
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_name().empty()) verbs.push_back(verb->get_name());  // option groups have none
  }
  if (!verbs.empty()) {
    return fmt::format("{}: there is no {} {}; there are the verbs {} ({} --help tells of them)\n",
                       name, is_option ? "option" : "verb", words.front(), fmt::join(verbs, ", "),
                       name);
  }
  const bool more = dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr;
  return fmt::format("{}: {} {}{}{} ({} --help tells more)\n", name,
                     is_option ? "there is no option" : "not expected:", words.front(),
                     more ? "; " : "", more ? error.what() : "", name);
}

// Whether all of standard output was written. A reader that had enough is told of nothing.
bool OutputIsWritten() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  if (!ReaderOfStandardOutputIsGone()) {
    WriteStandardError("dsv4: standard output cannot be written\n");
  }
  return false;
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
  SetUpSignals();
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
    if (error.get_exit_code() != 0) {
      WriteStandardError(UsageText(app, error));
      return kExitUsage;
    }
    app.exit(error);  // prints the help or the version
    return OutputIsWritten() ? kExitDone : kExitFailed;
  }
  const Status status = Run(selected);
  if (status) return OutputIsWritten() ? kExitDone : kExitFailed;
  std::fflush(stdout);
  const ErrorKind kind = status.error().kind;
  if (kind == ErrorKind::kFailed && ReaderOfStandardOutputIsGone()) return kExitFailed;
  WriteStandardError(fmt::format("dsv4: {}\n", status.error().message));
  return ExitCodeOf(kind);
}

}  // namespace
}  // namespace dsv4::tools

int main(int argc, char** argv) { return dsv4::tools::Main(argc, argv); }
