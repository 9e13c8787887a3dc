#include <memory>
#include <optional>
#include <utility>

#include "text/chat_encoding.h"
#include "tools/batch.h"
#include "tools/commands.h"
#include "tools/dialect_choice.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

struct Arguments {
  std::string mode = "chat";
  std::string effort = "none";
  bool no_drop_thinking = false;
  bool no_bos = false;
  bool batch = false;
  DialectFlags dialect;
};

chat::EncodeOptions OptionsOf(const Arguments& arguments) {
  return {.mode = *chat::ModeFromName(arguments.mode),
          .effort = *chat::EffortFromName(arguments.effort),
          .drop_thinking = !arguments.no_drop_thinking,
          .add_bos = !arguments.no_bos};
}

Status ReadSwitch(const json::Value& options, std::string_view key, bool* target) {
  const json::Value* value = options.Find(key);
  if (value == nullptr) return {};
  if (!value->is_bool()) {
    return BadInput("options.{}: expected true or false, found {}", key, json::Dump(*value));
  }
  *target = value->as_bool();
  return {};
}

// Members that are missing leave `target` as it is. A mode or effort that does not exist is an
// error only where a message is rendered, as in the reference: it goes to *unknown.
Status ReadOptions(const json::Value& options, chat::EncodeOptions* target,
                   std::optional<Error>* unknown) {
  if (options.is_null()) return {};
  if (!options.is_object()) {
    return BadInput("options: expected an object, found {}", json::KindName(options.kind()));
  }
  Status known_members = CheckMembers(
      options, {"thinking_mode", "drop_thinking", "add_default_bos_token", "reasoning_effort"});
  if (!known_members) return Within("options", std::move(known_members).error());
  DSV4_TRY(ReadSwitch(options, "drop_thinking", &target->drop_thinking));
  DSV4_TRY(ReadSwitch(options, "add_default_bos_token", &target->add_bos));
  if (const json::Value* mode = options.Find("thinking_mode")) {
    const auto known = mode->is_string() ? chat::ModeFromName(mode->as_string()) : std::nullopt;
    target->mode = known.value_or(chat::Mode::kChat);
    if (!known) {
      *unknown = BadInput("options.thinking_mode: expected \"chat\" or \"thinking\", found {}",
                          json::Dump(*mode))
                     .error();
    }
  }
  if (const json::Value* effort = options.Find("reasoning_effort")) {
    const auto known =
        effort->is_string() ? chat::EffortFromName(effort->as_string()) : std::nullopt;
    target->effort = known.value_or(chat::Effort::kNone);
    if (!known && !effort->is_null()) {
      *unknown =
          BadInput("options.reasoning_effort: expected \"none\", \"high\" or \"max\", found {}",
                   json::Dump(*effort))
              .error();
    }
  }
  return {};
}

Result<json::Value> EncodeLine(const chat::WireDialect& dialect, const json::Value& line,
                               chat::EncodeOptions options) {
  DSV4_TRY(CheckMembers(line, {"id", "messages", "context", "options"}, {"prompt", "error"}));
  const json::Value* messages = line.Find("messages");
  if (messages == nullptr) return BadInput("messages: expected an array, found nothing");
  std::optional<Error> unknown;
  if (const json::Value* given = line.Find("options")) {
    DSV4_TRY(ReadOptions(*given, &options, &unknown));
  }
  DSV4_ASSIGN(chat::EncodedPrompt prompt,
              chat::Encode(dialect, *messages, line.Find("context"), options));
  if (unknown && prompt.num_rendered > 0) return std::unexpected(*unknown);
  return json::Value::MakeObject({{"prompt", json::Value::String(std::move(prompt.text))}});
}

Status Encode(const Arguments& arguments) {
  DSV4_ASSIGN(const chat::WireDialect* const dialect, arguments.dialect.Find());
  const chat::EncodeOptions options = OptionsOf(arguments);
  // A line may be in thinking mode by its options.
  if (!arguments.batch) DSV4_TRY(CheckEffort(arguments.mode, arguments.effort));
  if (arguments.batch) {
    return RunBatch([&](const json::Value& line) { return EncodeLine(*dialect, line, options); });
  }
  DSV4_ASSIGN(const std::string input, ReadStandardInput());
  const Result<json::Value> messages = json::Parse(input);
  if (!messages) return Within("standard input", messages.error());
  DSV4_ASSIGN(const chat::EncodedPrompt prompt,
              chat::Encode(*dialect, *messages, nullptr, options));
  return WriteTextToStandardOutput(prompt.text);
}

}  // namespace

void AddEncode(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand(
      "encode", "Turn a JSON array of messages on standard input into the prompt's text");
  verb->add_option("--mode", arguments->mode, "chat or thinking")
      ->check(CLI::IsMember({"chat", "thinking"}))
      ->capture_default_str();
  verb->add_option("--effort", arguments->effort, kEffortHelp)
      ->check(CLI::IsMember({"none", "high", "max"}))
      ->capture_default_str();
  verb->add_flag("--no-drop-thinking", arguments->no_drop_thinking,
                 "Keep the reasoning of earlier turns");
  verb->add_flag("--no-bos", arguments->no_bos, "Leave out the token that begins a text");
  arguments->dialect.AddTo(verb);
  verb->add_flag("--batch", arguments->batch,
                 R"(Lines {"id","messages","context"?,"options"?} in, {"id","prompt"} or )"
                 R"({"id","error"} out)");
  verb->footer(
      R"(Example: echo '[{"role":"user","content":"Hello"}]' | dsv4 encode --mode thinking)"
      "\nNo newline is added but on a terminal. A line's options are {\"thinking_mode\", "
      "\"drop_thinking\",\n"
      "\"add_default_bos_token\", \"reasoning_effort\"}; those given above are the defaults. A "
      "line that\n"
      "cannot be answered is an error of that line alone: the exit code stays 0.");
  verb->callback([arguments, selected] { *selected = [arguments] { return Encode(*arguments); }; });
}

}  // namespace dsv4::tools
