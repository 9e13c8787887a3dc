#include <memory>

#include "text/completion_parser.h"
#include "tools/batch.h"
#include "tools/commands.h"
#include "tools/dialect_choice.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

struct Arguments {
  std::string mode = "chat";
  bool batch = false;
  DialectFlags dialect;
};

Result<json::Value> ParseLine(const chat::WireDialect& dialect, const json::Value& line,
                              chat::Mode mode) {
  DSV4_TRY(CheckMembers(line, {"id", "completion", "mode"}, {"message", "error"}));
  DSV4_ASSIGN(const std::string completion, BatchString(line, "completion"));
  if (line.Find("mode") != nullptr) {
    DSV4_ASSIGN(const std::string name, BatchString(line, "mode"));
    const auto known = chat::ModeFromName(name);
    if (!known) {
      return BadInput("mode: expected \"chat\" or \"thinking\", found {}", json::Quote(name));
    }
    mode = *known;
  }
  const auto message = chat::ParseCompletion(dialect, completion, mode);
  if (!message) return Within("completion", message.error());
  return json::Value::MakeObject({{"message", message->ToJson()}});
}

Status Parse(const Arguments& arguments) {
  DSV4_ASSIGN(const chat::WireDialect* const dialect, arguments.dialect.Find());
  const chat::Mode mode = *chat::ModeFromName(arguments.mode);
  if (arguments.batch) {
    return RunBatch([&](const json::Value& line) { return ParseLine(*dialect, line, mode); });
  }
  DSV4_ASSIGN(const std::string completion, ReadStandardInput());
  const auto message = chat::ParseCompletion(*dialect, completion, mode);
  if (!message) return Within("standard input", message.error());
  return WriteStandardOutput(json::Dump(message->ToJson()) + '\n');
}

}  // namespace

void AddParse(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand(
      "parse", "Turn a completion on standard input into the assistant's message");
  verb->add_option("--mode", arguments->mode, "chat or thinking, as the prompt was made")
      ->check(CLI::IsMember({"chat", "thinking"}))
      ->capture_default_str();
  arguments->dialect.AddTo(verb);
  verb->add_flag("--batch", arguments->batch,
                 R"(Lines {"id","completion","mode"?} in, {"id","message"} or {"id","error"} out)");
  verb->footer(
      "Example: printf 'Hmm.</think>Hello<｜end▁of▁sentence｜>' | dsv4 parse --mode thinking\n"
      "Every byte counts, a last newline too: what stands after the end token is an error.\n"
      "With --batch an error is of its line alone: the exit code stays 0.");
  verb->callback([arguments, selected] { *selected = [arguments] { return Parse(*arguments); }; });
}

}  // namespace dsv4::tools
