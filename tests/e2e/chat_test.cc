// `dsv4 chat` from a pipe and at a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/run_program.h"
#include "tests/support/terminal.h"
#include "tests/support/tiny_model.h"

namespace dsv4::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ChatTest : public ::testing::Test {
 protected:
  std::vector<std::string> Command(std::vector<std::string> more = {},
                                   const std::string& max_new_tokens = "6") const {
    std::vector<std::string> command{DSV4_BINARY,        "chat",        "--model",   model_.path(),
                                     "--seed",           "5",           "--threads", "1",
                                     "--max-new-tokens", max_new_tokens};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  Terminal::Environment Home() const {
    return {{"HOME", home_.path().string()}, {"XDG_STATE_HOME", ""}};
  }

  TinyModel model_;
  TempFolder home_;
};

using ChatPipeTest = ChatTest;
using ChatTerminalTest = ChatTest;

TEST_F(ChatPipeTest, EachLineIsATurnAndOnlyAnswersArePrinted) {
  const ProgramResult both = RunProgram(Command(), "hello\n\nworld\n");
  EXPECT_EQ(both.exit_code, 0);
  EXPECT_THAT(both.err, IsEmpty());
  const ProgramResult first = RunProgram(Command(), "hello");
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.out, EndsWith("\n"));
  ASSERT_GT(both.out.size(), first.out.size());
  EXPECT_EQ(both.out.substr(0, first.out.size()), first.out);
  EXPECT_THAT(both.out, Not(HasSubstr(">>>")));
  const ProgramResult nothing = RunProgram(Command(), "");
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_THAT(nothing.out, IsEmpty());
}

TEST_F(ChatPipeTest, TheSecondTurnReusesTheFirst) {
  const ProgramResult result = RunProgram(Command({"--stats"}), "hello\nworld\n");
  EXPECT_THAT(result.err, HasSubstr("prompt 6 tokens, 0 of them cached]"));
  EXPECT_THAT(result.err, HasSubstr("first token after "));
  EXPECT_THAT(result.err, HasSubstr(" tokens/s, 6 tokens;"));
  EXPECT_THAT(result.err.substr(result.err.find('\n')), Not(HasSubstr(", 0 of them cached]")));
}

TEST_F(ChatPipeTest, ThinkingIsMarkedAndAConversationIsSavedAndLoaded) {
  const std::string file = (home_ / "talk.json").string();
  const ProgramResult saved =
      RunProgram(Command({"--system", "Be brief."}), "/think on\nhello\n/save " + file + "\n");
  EXPECT_EQ(saved.exit_code, 0);
  EXPECT_THAT(saved.err, IsEmpty());
  EXPECT_EQ(saved.out.substr(0, 8), "<think>\n");
  EXPECT_THAT(saved.out, HasSubstr("\n</think>\n"));
  const auto messages = json::Parse(ReadFileText(file));
  ASSERT_TRUE(messages) << messages.error().message;
  ASSERT_EQ(messages->items().size(), 3u);
  EXPECT_EQ(messages->items()[0].Find("content")->as_string(), "Be brief.");
  EXPECT_EQ(messages->items()[1].Find("content")->as_string(), "hello");
  EXPECT_EQ(messages->items()[2].Find("role")->as_string(), "assistant");
  EXPECT_THAT(saved.out, HasSubstr(messages->items()[2].Find("reasoning_content")->as_string()));
  // Going on from the file is going on.
  const ProgramResult at_once =
      RunProgram(Command({"--system", "Be brief."}), "/think on\nhello\n/think off\nmore\n");
  const ProgramResult loaded = RunProgram(Command(), "/load " + file + "\nmore\n");
  EXPECT_THAT(at_once.out, EndsWith("</think>\n" + loaded.out));
}

TEST_F(ChatPipeTest, ACommandThatFailsEndsThePipeAndTwoSlashesSayOne) {
  const std::string file = (home_ / "talk.json").string();
  const ProgramResult said = RunProgram(Command(), "//etc/passwd is a file\n/save " + file + "\n");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(ReadFileText(file), HasSubstr("\"content\": \"/etc/passwd is a file\""));
  struct Case {
    const char* line;
    int exit_code;
    const char* message;
  };
  for (const Case& c :
       {Case{"/etc/passwd is a file", 2, "dsv4: no command /etc/passwd; there are /exit /clear"},
        Case{"/think maybe", 2, "dsv4: /think: expected /think on|off|max"},
        Case{"/load /nowhere/file", 3, "dsv4: /nowhere/file: cannot be opened: No such file"},
        Case{"/save /nowhere/file", 1, "dsv4: /nowhere/file"}}) {
    const ProgramResult failed = RunProgram(Command(), std::string(c.line) + "\nhello\n");
    EXPECT_EQ(failed.exit_code, c.exit_code) << c.line;
    EXPECT_THAT(failed.err, HasSubstr(c.message));
    EXPECT_THAT(failed.out, IsEmpty()) << "the program goes on after " << c.line;
  }
}

TEST_F(ChatPipeTest, LoadKeepsTheSystemTextWhereTheFileHasNone) {
  const std::string in = home_.Write("in.json", R"([{"role":"user","content":"a"}])").string();
  const std::string other =
      home_.Write("other.json", R"([{"role":"system","content":"Be long."}])").string();
  const std::string out = (home_ / "out.json").string();
  for (const auto& [file, expected] :
       {std::pair{
            in,
            R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}])"},
        std::pair{other, R"([{"role": "system", "content": "Be long."}])"}}) {
    const ProgramResult result =
        RunProgram(Command({"--system", "Be brief."}), "/load " + file + "\n/save " + out + "\n");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(ReadFileText(out), std::string(expected) + "\n");
  }
}

TEST_F(ChatPipeTest, AFullContextIsToldOnceUnlessQuiet) {
  const std::vector<std::string> options{"--context", "20", "--temperature", "0"};
  const ProgramResult full = RunProgram(Command(options, "100"), "hello\n");
  EXPECT_EQ(full.exit_code, 0);
  EXPECT_EQ(full.err, "[the context of 20 tokens is full]\n");
  std::vector<std::string> quiet = options;
  quiet.push_back("--quiet");
  EXPECT_THAT(RunProgram(Command(quiet, "100"), "hello\n").err, IsEmpty());
  EXPECT_EQ(RunProgram(Command(options, "100"), "hello\nmore\n").exit_code, 4);
}

TEST_F(ChatPipeTest, LogitsThatAreNotFiniteAreAnErrorAndNoAnswer) {
  model_.FillWithNan("head.weight");
  const ProgramResult result = RunProgram(Command(), "hello\nagain\n");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, Not(HasSubstr("filler")));
  EXPECT_THAT(result.err, HasSubstr("dsv4: token 6: expected a largest logit that is finite, found "
                                    "512 NaN"));
}

TEST_F(ChatPipeTest, APromptBeyondTheContextNamesBothNumbers) {
  const ProgramResult result =
      RunProgram(Command({"--context", "20"}), "a line that is surely longer than that\n");
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.err,
              HasSubstr("tokens, which leaves no room for an answer in a context of 20"));
}

// Runs the chat with an endless answer, and interrupts it when some of it has come.
TEST_F(ChatPipeTest, CtrlCEndsTheAnswerAndSaysSo) {
  int input[2], output[2];
  ASSERT_EQ(::pipe(input), 0);
  ASSERT_EQ(::pipe(output), 0);
  std::vector<std::string> command = Command({"--context", "1000", "--temperature", "0"}, "900");
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(input[0], STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    ::close(STDERR_FILENO);  // what nobody can hear does no harm
    ::close(input[1]);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(output[1]);
  ASSERT_EQ(::write(input[1], "hello\n", 6), 6);
  char byte = 0;
  ASSERT_EQ(::read(output[0], &byte, 1), 1);
  ::kill(child, SIGINT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  ::close(input[0]);
  ::close(input[1]);
  ::close(output[0]);
}

TEST_F(ChatTerminalTest, AFileThatShrinksEndsTheProgramWithAMessage) {
  model_.OwnShards();
  Terminal terminal(Command(), Home());
  ASSERT_TRUE(terminal.WaitFor(">>> "));
  for (const auto& entry : std::filesystem::directory_iterator(model_.folder().path())) {
    if (entry.path().extension() == ".safetensors") std::filesystem::resize_file(entry, 4096);
  }
  terminal.Type("hello\n");
  EXPECT_EQ(terminal.Wait(), 1);
  EXPECT_THAT(terminal.screen(),
              HasSubstr("dsv4: a file that was being read shrank, or its disk failed"));
}

TEST_F(ChatTerminalTest, ASignalThatEndsThePromptGivesTheTerminalBack) {
  for (const int signal : {SIGTERM, SIGHUP, SIGBUS}) {
    Terminal terminal(Command(), Home());
    ASSERT_TRUE(terminal.WaitFor(">>> "));
    EXPECT_FALSE(terminal.IsCooked());
    ASSERT_EQ(::kill(terminal.child(), signal), 0);
    EXPECT_EQ(terminal.Wait(), -1) << "the signal ends it";
    EXPECT_TRUE(terminal.IsCooked()) << signal;
  }
}

TEST_F(ChatTerminalTest, LinesAreEditedAndKeptAndAnswersStream) {
  {
    Terminal terminal(Command(), Home());
    ASSERT_TRUE(terminal.WaitFor(">>> ")) << terminal.screen();
    EXPECT_THAT(terminal.screen(), HasSubstr("loading " + model_.path()));
    EXPECT_THAT(terminal.screen(), ::testing::ContainsRegex("KV cache up to [0-9.]+ [kM]B of "));
    terminal.Type("/help\n");
    ASSERT_TRUE(terminal.WaitFor("/think on|off|max")) << terminal.screen();
    ASSERT_TRUE(terminal.WaitFor(">>> "));
    terminal.Type("/bogus\n");
    ASSERT_TRUE(terminal.WaitFor("no command /bogus; there are")) << terminal.screen();
    ASSERT_TRUE(terminal.WaitFor(">>> "));
    terminal.Type(
        "hällo\x7F\x7F\x7F\x7F"
        "ello 世界\n");  // over a character of two bytes
    ASSERT_TRUE(terminal.WaitFor("[cut at 6 tokens")) << terminal.screen();
    ASSERT_TRUE(terminal.WaitFor(">>> "));
    terminal.Type("\x04");
    EXPECT_EQ(terminal.Wait(), 0) << terminal.screen();
  }
  const auto history = home_ / ".local/state/dsv4/history";
  struct stat found {};
  ASSERT_EQ(::stat(history.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_THAT(ReadFileText(history), HasSubstr("bogus"));
  Terminal again(Command(), Home());
  ASSERT_TRUE(again.WaitFor(">>> "));
  again.Type("\x1B[A");  // the line before
  ASSERT_TRUE(again.WaitFor("hello 世界")) << again.screen();
  again.Type("\x15\x04");  // clear the line, then end
  EXPECT_EQ(again.Wait(), 0);
}

TEST_F(ChatTerminalTest, CommandsThatWereDoneAreConfirmedUnlessQuiet) {
  const std::string commands[] = {"/think max",
                                  "/think on",
                                  "/think off",
                                  "/system Be brief.",
                                  "/save ~/talk.json",
                                  "/load ~/talk.json",
                                  "/clear",
                                  "/system",
                                  "/clear"};
  const std::string notes[] = {"[thinking is on, at the greatest effort]",
                               "[thinking is on]",
                               "[thinking is off]",
                               "[the system text is set]",
                               "[1 messages are saved]",
                               "[1 messages are loaded]",
                               "[forgotten; the system text stays]",
                               "[there is no system text]",
                               "[forgotten]"};
  Terminal terminal(Command(), Home());
  Terminal quiet(Command({"--quiet"}), Home());
  for (size_t i = 0; i < std::size(commands); ++i) {
    ASSERT_TRUE(terminal.WaitFor(">>> ")) << terminal.screen();
    terminal.Type(commands[i] + "\n");
    ASSERT_TRUE(terminal.WaitFor(notes[i])) << terminal.screen();
    ASSERT_TRUE(quiet.WaitFor(">>> ")) << quiet.screen();
    quiet.Type(commands[i] + "\n");
  }
  EXPECT_TRUE(std::filesystem::exists(home_ / "talk.json"));
  for (Terminal* each : {&terminal, &quiet}) {
    ASSERT_TRUE(each->WaitFor(">>> "));
    each->Type("\x04");
    EXPECT_EQ(each->Wait(), 0);
  }
  for (const std::string& note : notes) EXPECT_THAT(quiet.screen(), Not(HasSubstr(note)));
}

TEST_F(ChatTerminalTest, CtrlCStopsTheAnswerNotTheProgram) {
  // Greedy: an answer that samples may end by itself before the key comes.
  Terminal terminal(Command({"--context", "900", "--temperature", "0"}, "890"), Home());
  ASSERT_TRUE(terminal.WaitFor(">>> "));
  terminal.Type("dropped\x03");
  ASSERT_TRUE(terminal.WaitFor(">>> ")) << terminal.screen();
  terminal.Type("hello\n");
  ASSERT_TRUE(terminal.WaitFor("filler")) << terminal.screen();
  terminal.Type("\x03");
  ASSERT_TRUE(terminal.WaitFor("[stopped]")) << terminal.screen();
  ASSERT_TRUE(terminal.WaitFor(">>> "));
  const std::string file = (home_ / "talk.json").string();
  terminal.Type("/save " + file + "\n");
  ASSERT_TRUE(terminal.WaitFor(">>> "));
  terminal.Type("/exit\n");
  EXPECT_EQ(terminal.Wait(), 0);
  const auto messages = json::Parse(ReadFileText(file));
  ASSERT_TRUE(messages) << messages.error().message;
  ASSERT_EQ(messages->items().size(), 2u) << "the dropped line was not said";
  EXPECT_EQ(messages->items()[0].Find("content")->as_string(), "hello");
  EXPECT_THAT(messages->items()[1].Find("content")->as_string(), HasSubstr("filler"));
}

TEST_F(ChatTerminalTest, AnErrorOfAnAnswerIsToldAndTheChatGoesOn) {
  model_.FillWithNan("head.weight");
  Terminal terminal(Command(), Home());
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(terminal.WaitFor(">>> ")) << terminal.screen();
    terminal.Type("hello\n");
    ASSERT_TRUE(terminal.WaitFor("token 6: expected a largest logit")) << terminal.screen();
  }
  ASSERT_TRUE(terminal.WaitFor(">>> "));
  terminal.Type("\x04");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(ChatTerminalTest, ThinkingIsDimmedUnlessNoColorOrADumbTerminal) {
  using Variable = std::pair<const char*, const char*>;
  for (const Variable& variable :
       {Variable{"NO_COLOR", ""}, Variable{"NO_COLOR", "1"}, Variable{"TERM", "dumb"}}) {
    const bool color = *variable.second == '\0';
    Terminal::Environment environment = Home();
    environment.emplace_back(variable);
    Terminal terminal(Command({"--mode", "thinking"}), environment);
    ASSERT_TRUE(terminal.WaitFor(">>> "));
    terminal.Type("hello\n");
    ASSERT_TRUE(terminal.WaitFor(color ? "\x1B[2m" : "<think>")) << terminal.screen();
    ASSERT_TRUE(terminal.WaitFor(color ? "\x1B[0m" : "</think>")) << terminal.screen();
    ASSERT_TRUE(terminal.WaitFor(">>> "));
    EXPECT_EQ(terminal.screen().find("\x1B[2m") != std::string::npos, color);
    terminal.Type("\x04");
    EXPECT_EQ(terminal.Wait(), 0);
  }
}

TEST_F(ChatTest, ANoticeOfTheModelIsTold) {
  model_.folder().Write("notice.txt", "The weights are random.\nmore\n");
  EXPECT_EQ(RunProgram(Command(), "").err, "dsv4: The weights are random.\n");
  EXPECT_THAT(RunProgram(Command({"--quiet"}), "").err, IsEmpty());
}

}  // namespace
}  // namespace dsv4::testing
