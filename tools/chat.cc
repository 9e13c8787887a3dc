// `dsv4 chat`: a conversation at a terminal, or line by line from a pipe.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "tools/chat_commands.h"
#include "tools/chat_printer.h"
#include "tools/commands.h"
#include "tools/conversation.h"
#include "tools/dialect_choice.h"
#include "tools/line_editor.h"
#include "tools/model_path.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"
#include "tools/running_model.h"
#include "tools/standard_io.h"

namespace dsv4::tools {
namespace {

constexpr int32_t kNumSnapshots = 16;

struct Arguments {
  EngineFlags model;
  GenerationFlags generation;
  std::string system;
  std::optional<int64_t> max_new_tokens;
  bool stats = false;
};

volatile std::sig_atomic_t interrupt_pending = 0;

// From now on Ctrl-C only raises the flag; a wait for input is broken off.
void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_pending = 1; };
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

// Everything a conversation needs, from the loaded model to the settings that commands change.
class Chat {
 public:
  Chat(const Arguments& arguments, const ModelFolder& folder, const chat::WireDialect& dialect,
       engine::Engine& engine, chat::EncodeOptions encode)
      : arguments_(arguments),
        tokenizer_(folder.tokenizer),
        dialect_(dialect),
        engine_(engine),
        generator_(engine, folder.tokenizer, &dialect),
        sampling_(SamplingOf(arguments.generation, folder)),
        encode_(encode),
        session_(engine.OpenSession()),
        style_(ChatPrinter::ForStandardOutput()) {
    conversation_.SetSystem(arguments.system);
  }

  // A line at a time, from a terminal or a pipe. At a terminal errors of a line are told and the
  // chat goes on; a pipe ends with the first one.
  Status RunTerminal();
  Status RunPipe();

 private:
  enum class Next { kGoOn, kExit };

  Result<Next> RunCommand(std::string_view line);
  // What a terminal is told of a command that was done.
  std::string Done(const ChatCommand& command) const;
  // Answers `text`; whether Ctrl-C stopped it.
  Result<bool> Answer(std::string text);
  Status Generate(std::vector<int32_t> prompt, AnswerBuilder* answer,
                  service::GenerationEvent* last);
  void Tell(const service::GenerationEvent& last) const;

  const Arguments& arguments_;
  const Tokenizer& tokenizer_;
  const chat::WireDialect& dialect_;
  engine::Engine& engine_;
  service::Generator generator_;
  const engine::SamplingParams sampling_;
  chat::EncodeOptions encode_;
  const engine::SessionId session_;
  const ChatPrinter::Style style_;
  Conversation conversation_;
};

void Note(std::string_view text) { WriteStandardError(fmt::format("{}\n", text)); }

Result<Chat::Next> Chat::RunCommand(std::string_view line) {
  DSV4_ASSIGN(const ChatCommand command, ParseChatCommand(line));
  switch (command.kind) {
    case ChatCommand::Kind::kExit:
      return Next::kExit;
    case ChatCommand::Kind::kClear:
      conversation_.Clear();
      break;
    case ChatCommand::Kind::kHelp:
      WriteStandardError(ChatHelp());
      return Next::kGoOn;
    case ChatCommand::Kind::kThinkOn:
      encode_.mode = chat::Mode::kThinking;
      encode_.effort = chat::Effort::kNone;
      break;
    case ChatCommand::Kind::kThinkOff:
      encode_.mode = chat::Mode::kChat;
      encode_.effort = chat::Effort::kNone;
      break;
    case ChatCommand::Kind::kThinkMax:
      encode_.mode = chat::Mode::kThinking;
      encode_.effort = chat::Effort::kMax;
      break;
    case ChatCommand::Kind::kSystem:
      conversation_.SetSystem(command.argument);
      break;
    case ChatCommand::Kind::kSave:
      DSV4_TRY(conversation_.Save(ExpandHome(command.argument)));
      break;
    case ChatCommand::Kind::kLoad:
      DSV4_TRY(conversation_.Load(ExpandHome(command.argument), dialect_));
      break;
  }
  if (style_.terminal && !arguments_.model.quiet) Note(Done(command));
  return Next::kGoOn;
}

std::string Chat::Done(const ChatCommand& command) const {
  switch (command.kind) {
    case ChatCommand::Kind::kClear:
      return conversation_.has_system() ? "[forgotten; the system text stays]" : "[forgotten]";
    case ChatCommand::Kind::kThinkOn:
      return "[thinking is on]";
    case ChatCommand::Kind::kThinkOff:
      return "[thinking is off]";
    case ChatCommand::Kind::kThinkMax:
      return "[thinking is on, at the greatest effort]";
    case ChatCommand::Kind::kSystem:
      return conversation_.has_system() ? "[the system text is set]" : "[there is no system text]";
    case ChatCommand::Kind::kSave:
      return fmt::format("[{} messages are saved]", conversation_.size());
    case ChatCommand::Kind::kLoad:
      return fmt::format("[{} messages are loaded]", conversation_.size());
    case ChatCommand::Kind::kExit:
    case ChatCommand::Kind::kHelp:
      break;
  }
  return {};
}

Result<bool> Chat::Answer(std::string text) {
  conversation_.AddUser(std::move(text));
  auto prompt = service::EncodeChat(dialect_, tokenizer_, conversation_.ToJson(), encode_,
                                    arguments_.generation.in_content());
  AnswerBuilder answer;
  service::GenerationEvent last;
  Status status = prompt ? Generate(std::move(*prompt), &answer, &last)
                         : Status(std::unexpected(std::move(prompt).error()));
  const bool stopped = last.finish == engine::FinishReason::kCancelled;
  if (!status || (stopped && answer.empty())) {
    conversation_.TakeBackUser();
  } else {
    conversation_.AddAssistant(answer.message());
  }
  DSV4_TRY(std::move(status));
  if (std::ferror(stdout) != 0) return Failed("standard output cannot be written");
  Tell(last);
  return stopped;
}

Status Chat::Generate(std::vector<int32_t> prompt, AnswerBuilder* answer,
                      service::GenerationEvent* last) {
  ChatPrinter printer(stdout, style_);
  ProgressBar progress(arguments_.model.quiet);
  const auto prompt_tokens = static_cast<uint64_t>(prompt.size());
  const auto form = encode_.mode == chat::Mode::kThinking ? service::OutputForm::kThinking
                                                          : service::OutputForm::kChat;
  interrupt_pending = 0;
  DSV4_ASSIGN(
      const uint64_t id,
      generator_.Start({.prompt = std::move(prompt),
                        .form = form,
                        .sampling = sampling_,
                        .max_new_tokens = arguments_.max_new_tokens.value_or(engine_.context()),
                        .stop = arguments_.generation.stop,
                        .session = session_},
                       [&](const service::GenerationEvent& event) {
                         progress.Finish();
                         answer->Add(event);
                         printer.Print(event);
                         if (event.kind == service::GenerationEvent::Kind::kFinish) *last = event;
                       }));
  progress.Start("prompt", prompt_tokens);
  while (generator_.Step()) {
    if (interrupt_pending != 0 || std::ferror(stdout) != 0) generator_.Cancel(id);
    const auto state = engine_.PromptProgressOf(id);
    if (state && state->num_computed < state->num_tokens) {
      progress.Update(static_cast<uint64_t>(state->num_computed));
    }
  }
  if (last->finish == engine::FinishReason::kError) return Failed("{}", last->error);
  return {};
}

void Chat::Tell(const service::GenerationEvent& last) const {
  const bool told = style_.terminal && !arguments_.model.quiet;
  if (last.finish == engine::FinishReason::kCancelled && told) Note("[stopped]");
  if (last.finish == engine::FinishReason::kContext && !arguments_.model.quiet) {
    Note(fmt::format("[the context of {} tokens is full{}]", engine_.context(),
                     told ? "; /clear begins anew" : ""));
  }
  if (last.finish == engine::FinishReason::kLength && told) {
    Note(fmt::format("[cut at {} tokens; --max-new-tokens allows more]",
                     last.usage.completion_tokens));
  }
  if (arguments_.stats) {
    const service::Usage& usage = last.usage;
    Note(
        fmt::format("[first token after {:.3f} s, {:.1f} tokens/s, {} tokens; prompt {} tokens, "
                    "{} of them cached]",
                    usage.first_token_seconds, usage.tokens_per_second(), usage.completion_tokens,
                    usage.prompt_tokens, usage.cached_tokens));
  }
}

Status Chat::RunTerminal() {
  CatchInterrupts();
  LineEditor editor(HistoryPath());
  if (!arguments_.model.quiet) Note("/help shows the commands, Ctrl-D ends.");
  for (std::string line;;) {
    const LineEditor::Outcome outcome = editor.Read(&line);
    if (outcome == LineEditor::Outcome::kEnd) return {};
    if (outcome == LineEditor::Outcome::kInterrupted || line.empty()) continue;
    if (IsChatCommand(line)) {
      const Result<Next> next = RunCommand(line);
      if (!next) Note(next.error().message);
      if (next == Next::kExit) return {};
      continue;
    }
    const Result<bool> stopped = Answer(std::string(ChatText(line)));
    if (!stopped) Note(stopped.error().message);
  }
}

Status Chat::RunPipe() {
  for (std::string line; std::getline(std::cin, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (IsChatCommand(line)) {
      DSV4_ASSIGN(const Next next, RunCommand(line));
      if (next == Next::kExit) return {};
      continue;
    }
    CatchInterrupts();
    DSV4_ASSIGN(const bool stopped, Answer(std::string(ChatText(line))));
    if (stopped) return Failed("interrupted");
    std::signal(SIGINT, SIG_DFL);  // while waiting for a line it ends the program
  }
  if (std::ferror(stdin) != 0) return Failed("standard input cannot be read");
  return {};
}

Status RunChat(const Arguments& arguments) {
  DSV4_ASSIGN(const chat::EncodeOptions encode, arguments.generation.EncodeOptions());
  DSV4_ASSIGN(const ModelFolder folder, OpenModelFolder(arguments.model));
  DSV4_ASSIGN(const chat::WireDialect* const dialect, DialectOf(folder));
  const engine::MemoryWish wish{
      .num_sequences = 1, .context = arguments.model.context, .num_snapshots = kNumSnapshots};
  DSV4_ASSIGN(const RunningModel running, StartModel(arguments.model, folder, wish, {}));
  Chat chat(arguments, folder, *dialect, *running.engine, encode);
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  return terminal ? chat.RunTerminal() : chat.RunPipe();
}

}  // namespace

void AddChat(CLI::App& app, Selected* selected) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* const verb = app.add_subcommand("chat", "Talk with a model");
  arguments->model.AddTo(verb);
  arguments->generation.AddTo(verb);
  verb->add_option("--system", arguments->system, "What the model is told first");
  verb->add_option("--max-new-tokens", arguments->max_new_tokens,
                   "Tokens of an answer at most; as many as the context holds where absent")
      ->transform(WholeNumberFrom(1));
  verb->add_flag("--stats", arguments->stats,
                 "After each answer: time to first token, tokens/s, cached tokens");
  verb->footer("At a terminal and in a pipe:\n" + ChatHelp() +
               "In a pipe each other line is said to the model and only the answers are printed; a "
               "command\n"
               "that does not exist or fails ends the program, as an error of an answer does. An "
               "answer that\n"
               "fills the context ends there (exit code 0); what then is said no longer fits (4).\n"
               "Examples: dsv4 chat --model models/demo --mode thinking --stats\n"
               "          echo 'Hello' | dsv4 chat --model models/demo --max-new-tokens 50");
  verb->callback(
      [arguments, selected] { *selected = [arguments] { return RunChat(*arguments); }; });
}

}  // namespace dsv4::tools
