// The completion as it comes, split anywhere, into events. Never fails and never loses text: where
// strict parsing (completion_parser.h) succeeds the message is the same, else it recovers thus:
//   * A marker counts only in the state that knows it and only when complete; any other is text.
//   * A mismatch inside a calls block closes the open call (an open string gets '"', the object
//   '}')
//     and the raw text since the last event or completed part goes back as content: its first
//     character as text, the rest read again as content. (EOS itself at its start still ends.)
//   * At the end of input held text is flushed as text; an open call is closed as above.
//   * A parameter name that comes twice stands twice. Content may follow a calls block.
//   * Bytes that are no UTF-8 become U+FFFD. Bytes after EOS change nothing.
// `malformed` says that something stood where the format has no place for it; text that merely
// stops
// ("cut") is not malformed, nor is U+FFFD. Where the boundaries between events fall depends on the
// pieces; what they add up to does not.
// Names longer than kMaxHeadBytes count as mismatches, so that no more is ever held back.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/chat_mode.h"
#include "text/completion_parser.h"
#include "text/wire_dialect.h"

namespace dsv4::chat {

inline constexpr size_t kMaxHeadBytes = 16384;

struct StreamEvent {
  enum class Kind {
    kReasoning,  // text
    kContent,    // text
    kCallStart,  // text: the name
    kArguments,  // text: a piece of the JSON text of the open call's arguments
    kCallEnd,
    kFinish,  // the last event
  };
  Kind kind;
  std::string text = {};   // whole characters
  bool stopped = false;    // kFinish: EOS came; else the completion was cut
  bool malformed = false;  // kFinish: something stood where the format has no place for it
};

class CompletionStream {
 public:
  // The dialect must outlive this.
  CompletionStream(const WireDialect& dialect, Mode mode);

  // Takes the next bytes. Holds back only what might still become a marker or a character.
  std::vector<StreamEvent> Feed(std::string_view bytes);
  // The input ends here; the events end with kFinish where Feed has not given it yet.
  std::vector<StreamEvent> Finish();

  // Whether EOS has come: nothing that follows counts.
  bool finished() const { return state_ == State::kDone; }

 private:
  enum class State {
    kReasoning,
    kContent,
    kItem,           // in the block: an invoke or the block's end
    kInvokeName,     // after invoke_open, up to the first parameter or the invoke's end
    kCallItem,       // a parameter or the invoke's end
    kParameterName,  // after parameter_open, up to the value
    kValue,
    kValueEnd,
    kDone,
  };
  // What a step came to: it got on, it needs more input, or the text is not as it must be.
  enum class Outcome { kAdvanced, kWaiting, kMismatch };

  void Run();
  Outcome Step();
  Outcome StepText();
  Outcome StepItem();
  Outcome StepInvokeName();
  Outcome StepCallItem();
  Outcome StepParameterName();
  Outcome StepValue();
  Outcome StepValueEnd();
  Outcome Accept(std::string_view literal);
  // What is known of the text ahead, in bytes since the stream began: no end of a head begins in
  // [from, to), and one does at `to` where `hit`. It outlives recovery, so nothing is searched
  // twice.
  struct Ahead {
    size_t from = 0;
    size_t to = 0;
    bool hit = false;
  };
  // Where in Rest() the first of `needles` begins; it must be whole.
  Outcome FindHeadEnd(std::span<const std::string_view> needles, Ahead* ahead, size_t* at);

  void Decode(std::string_view bytes, bool is_last);
  void Recover();
  void CloseCall();
  void End(bool stopped);
  void EmitText(std::string_view text);
  void EmitValue(std::string_view text);
  void Emit(StreamEvent::Kind kind, std::string_view text = {});
  void Commit(size_t num_bytes);
  std::string_view Rest() const { return std::string_view(raw_).substr(begin_ + matched_); }
  std::string_view Raw() const { return std::string_view(raw_).substr(begin_); }

  const WireDialect& dialect_;
  State state_;
  std::string undecoded_;  // the bytes of a character that is not whole yet
  // raw_[begin_…) is what no event accounts for yet; its first matched_ bytes are matched literals.
  std::string raw_;
  size_t dropped_ = 0;  // bytes of the stream before raw_
  size_t begin_ = 0;
  size_t matched_ = 0;
  Ahead invoke_ahead_;
  Ahead parameter_ahead_;
  std::string recent_;  // the end of the text so far, in which a forbidden token may have begun
  bool after_block_ = false;
  bool in_call_ = false;
  bool value_is_string_ = false;
  bool malformed_ = false;
  bool ending_ = false;                    // no more input comes
  std::unordered_set<std::string> names_;  // of the open call's parameters
  std::vector<StreamEvent> events_;
};

// The message that a stream's events add up to.
class MessageBuilder {
 public:
  void Add(const StreamEvent& event);
  const ParsedMessage& message() const { return message_; }

 private:
  ParsedMessage message_;
};

}  // namespace dsv4::chat
