#include "text/completion_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "text/completion_grammar.h"

namespace dsv4::chat {
namespace {

bool IsProperPrefix(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

}  // namespace

CompletionStream::CompletionStream(const WireDialect& dialect, Mode mode)
    : dialect_(dialect), state_(mode == Mode::kThinking ? State::kReasoning : State::kContent) {}

std::vector<StreamEvent> CompletionStream::Feed(std::string_view bytes) {
  if (state_ == State::kDone) return {};
  Decode(bytes, false);
  Run();
  return std::exchange(events_, {});
}

std::vector<StreamEvent> CompletionStream::Finish() {
  if (state_ == State::kDone) return {};
  ending_ = true;
  Decode({}, true);
  for (Run(); state_ != State::kDone; Run()) {
    if (state_ == State::kReasoning || state_ == State::kContent) {
      EmitText(Raw());
      End(false);
    } else if (state_ == State::kValue) {
      const bool stopped = Raw() == dialect_.eos;
      if (stopped) {
        malformed_ = true;
      } else {
        EmitValue(Raw());
      }
      CloseCall();
      End(stopped);
    } else if (Raw().empty()) {
      CloseCall();
      End(false);
    } else {
      Recover();
    }
  }
  return std::exchange(events_, {});
}

// Appends whole characters to raw_; keeps the bytes of one that has only begun.
void CompletionStream::Decode(std::string_view bytes, bool is_last) {
  undecoded_ += bytes;
  size_t end = undecoded_.size();
  for (size_t back = 1; !is_last && back <= std::min<size_t>(3, undecoded_.size()); ++back) {
    const size_t at = undecoded_.size() - back;
    if (utf8::DecodeAt(undecoded_, at).truncated) end = at;
    if (static_cast<uint8_t>(undecoded_[at]) >= 0xC0) break;
  }
  raw_ += utf8::Sanitize(std::string_view(undecoded_).substr(0, end));
  undecoded_.erase(0, end);
}

void CompletionStream::Run() {
  while (state_ != State::kDone) {
    const Outcome outcome = Step();
    if (outcome == Outcome::kWaiting) return;
    if (outcome == Outcome::kAdvanced) continue;
    // What goes back as content may begin with EOS, which has yet to come whole.
    if (!ending_ && IsProperPrefix(Raw(), dialect_.eos)) return;
    Recover();
  }
}

CompletionStream::Outcome CompletionStream::Step() {
  switch (state_) {
    case State::kReasoning:
    case State::kContent:
      return StepText();
    case State::kItem:
      return StepItem();
    case State::kInvokeName:
      return StepInvokeName();
    case State::kCallItem:
      return StepCallItem();
    case State::kParameterName:
      return StepParameterName();
    case State::kValue:
      return StepValue();
    case State::kValueEnd:
      return StepValueEnd();
    case State::kDone:
      break;
  }
  return Outcome::kWaiting;
}

CompletionStream::Outcome CompletionStream::StepText() {
  const bool in_reasoning = state_ == State::kReasoning;
  const std::array<std::string_view, 2> markers = {
      dialect_.eos, in_reasoning ? dialect_.think_end : dialect_.block_head};
  const Scan scan = ScanFor(markers, Raw());
  EmitText(Raw().substr(0, scan.text_end));
  Commit(scan.text_end);
  if (scan.marker == nullptr) return Outcome::kWaiting;
  if (scan.marker == &markers[0]) {
    malformed_ = malformed_ || in_reasoning;
    End(true);
  } else if (in_reasoning) {
    Commit(dialect_.think_end.size());
    recent_.clear();
    state_ = State::kContent;
  } else {
    malformed_ = malformed_ || after_block_;
    matched_ = dialect_.block_head.size();
    state_ = State::kItem;
  }
  return Outcome::kAdvanced;
}

CompletionStream::Outcome CompletionStream::Accept(std::string_view literal) {
  const std::string_view rest = Rest();
  if (rest.starts_with(literal)) {
    matched_ += literal.size();
    return Outcome::kAdvanced;
  }
  return IsProperPrefix(rest, literal) ? Outcome::kWaiting : Outcome::kMismatch;
}

CompletionStream::Outcome CompletionStream::StepItem() {
  const Outcome invoke = Accept(dialect_.invoke_open);
  if (invoke == Outcome::kAdvanced) {
    state_ = State::kInvokeName;
    return invoke;
  }
  const Outcome close = Accept(dialect_.calls_tail);
  if (close == Outcome::kAdvanced) {
    Commit(matched_);
    after_block_ = true;
    state_ = State::kContent;
    return close;
  }
  return invoke == Outcome::kWaiting ? invoke : close;
}

CompletionStream::Outcome CompletionStream::FindHeadEnd(std::span<const std::string_view> needles,
                                                        Ahead* ahead, size_t* at) {
  const std::string_view head = Rest();
  const size_t begin = dropped_ + begin_ + matched_;
  if (begin < ahead->from || begin > ahead->to) *ahead = {begin, begin, false};
  if (!ahead->hit) {
    const Scan scan = ScanFor(needles, head.substr(ahead->to - begin));
    ahead->hit = scan.marker != nullptr;
    ahead->to += scan.text_end;
  }
  *at = ahead->to - begin;
  if (*at > kMaxHeadBytes) return Outcome::kMismatch;
  return ahead->hit ? Outcome::kAdvanced : Outcome::kWaiting;
}

CompletionStream::Outcome CompletionStream::StepInvokeName() {
  const std::array<std::string_view, 2> ends = {dialect_.parameter_open, dialect_.invoke_close};
  const std::string_view begun = Rest().substr(SpaceRun(Rest()));
  if (!begun.starts_with(dialect_.name_head) && !dialect_.name_head.starts_with(begun))
    return Outcome::kMismatch;
  size_t end = 0;
  if (const Outcome found = FindHeadEnd(ends, &invoke_ahead_, &end); found != Outcome::kAdvanced)
    return found;
  const std::string_view head = Rest();
  const bool parameter_follows = head.substr(end).starts_with(dialect_.parameter_open);
  const auto name = InvokeNameOf(dialect_, head.substr(0, end), parameter_follows);
  if (!name) return Outcome::kMismatch;
  Emit(StreamEvent::Kind::kCallStart, *name);
  Emit(StreamEvent::Kind::kArguments, "{");
  Commit(matched_ + end);
  names_.clear();
  in_call_ = true;
  state_ = State::kCallItem;
  return Outcome::kAdvanced;
}

CompletionStream::Outcome CompletionStream::StepCallItem() {
  const Outcome parameter = Accept(dialect_.parameter_open);
  if (parameter == Outcome::kAdvanced) {
    state_ = State::kParameterName;
    return parameter;
  }
  const Outcome end = Accept(dialect_.invoke_end);
  if (end == Outcome::kAdvanced) {
    CloseCall();
    Commit(matched_);
    state_ = State::kItem;
    return end;
  }
  return parameter == Outcome::kWaiting ? parameter : end;
}

CompletionStream::Outcome CompletionStream::StepParameterName() {
  const std::array<std::string_view, 3> ends = {dialect_.string_true, dialect_.string_false,
                                                dialect_.bare_parameter_close};
  const std::string_view head = Rest();
  if (IsProperPrefix(head, dialect_.parameter_name_head)) return Outcome::kWaiting;
  if (!head.starts_with(dialect_.parameter_name_head)) return Outcome::kMismatch;
  size_t end = 0;
  if (const Outcome found = FindHeadEnd(ends, &parameter_ahead_, &end); found != Outcome::kAdvanced)
    return found;
  const std::string_view tail = head.substr(end);
  if (end < dialect_.parameter_name_head.size() ||
      tail.starts_with(dialect_.bare_parameter_close)) {
    return Outcome::kMismatch;
  }
  value_is_string_ = tail.starts_with(dialect_.string_true);
  const std::string_view name =
      head.substr(dialect_.parameter_name_head.size(), end - dialect_.parameter_name_head.size());
  Emit(StreamEvent::Kind::kArguments, fmt::format("{}{}: {}", names_.empty() ? "" : ", ",
                                                  json::Quote(name), value_is_string_ ? "\"" : ""));
  if (!names_.insert(std::string(name)).second) malformed_ = true;
  Commit(matched_ + end + (value_is_string_ ? dialect_.string_true : dialect_.string_false).size());
  state_ = State::kValue;
  return Outcome::kAdvanced;
}

CompletionStream::Outcome CompletionStream::StepValue() {
  const std::array<std::string_view, 2> markers = {dialect_.parameter_close,
                                                   dialect_.bare_parameter_close};
  Scan scan = ScanFor(markers, Raw());
  // EOS counts only as the last thing of all; so does the beginning of it.
  if (scan.marker == nullptr) {
    const std::string_view text = Raw();
    for (size_t i = text.size() - std::min(text.size(), dialect_.eos.size()); i < scan.text_end;
         ++i) {
      if (dialect_.eos.starts_with(text.substr(i))) scan.text_end = i;
    }
  }
  EmitValue(Raw().substr(0, scan.text_end));
  Commit(scan.text_end);
  if (scan.marker == nullptr) return Outcome::kWaiting;
  if (scan.marker == &markers[1]) return Outcome::kMismatch;
  state_ = State::kValueEnd;
  return Outcome::kAdvanced;
}

CompletionStream::Outcome CompletionStream::StepValueEnd() {
  const Outcome outcome = Accept(dialect_.parameter_end);
  if (outcome != Outcome::kAdvanced) return outcome;
  if (std::exchange(value_is_string_, false)) Emit(StreamEvent::Kind::kArguments, "\"");
  Commit(matched_);
  state_ = State::kCallItem;
  return outcome;
}

void CompletionStream::Recover() {
  malformed_ = true;
  CloseCall();
  state_ = State::kContent;
  matched_ = 0;
  if (Raw().starts_with(dialect_.eos)) return;
  const auto length = static_cast<size_t>(utf8::DecodeAt(Raw(), 0).length);
  EmitText(Raw().substr(0, length));
  Commit(length);
}

void CompletionStream::CloseCall() {
  if (!std::exchange(in_call_, false)) return;
  if (std::exchange(value_is_string_, false)) Emit(StreamEvent::Kind::kArguments, "\"");
  Emit(StreamEvent::Kind::kArguments, "}");
  Emit(StreamEvent::Kind::kCallEnd);
}

void CompletionStream::End(bool stopped) {
  state_ = State::kDone;
  events_.push_back(
      {StreamEvent::Kind::kFinish, {}, /*stopped=*/stopped, /*malformed=*/malformed_});
  raw_.clear();
  begin_ = 0;
}

void CompletionStream::EmitText(std::string_view text) {
  if (text.empty()) return;
  const bool in_reasoning = state_ == State::kReasoning;
  Emit(in_reasoning ? StreamEvent::Kind::kReasoning : StreamEvent::Kind::kContent, text);
  if (!in_reasoning && after_block_) malformed_ = true;
  if (malformed_) return;
  recent_ += text;
  malformed_ =
      std::any_of(dialect_.forbidden.begin(), dialect_.forbidden.end(),
                  [&](std::string_view token) { return recent_.find(token) != std::string::npos; });
  const size_t kept = dialect_.longest_forbidden;
  if (recent_.size() > kept) recent_.erase(0, recent_.size() - kept);
}

void CompletionStream::EmitValue(std::string_view text) {
  if (!value_is_string_) return Emit(StreamEvent::Kind::kArguments, text);
  const std::string quoted = json::Quote(text);
  Emit(StreamEvent::Kind::kArguments, std::string_view(quoted).substr(1, quoted.size() - 2));
}

void CompletionStream::Emit(StreamEvent::Kind kind, std::string_view text) {
  const bool is_text = kind != StreamEvent::Kind::kCallStart && kind != StreamEvent::Kind::kCallEnd;
  if (is_text && text.empty()) return;
  if (is_text && !events_.empty() && events_.back().kind == kind) {
    events_.back().text += text;
  } else {
    events_.push_back({kind, std::string(text)});
  }
}

// An event or a completed part accounts for the first `num_bytes` of the raw text.
void CompletionStream::Commit(size_t num_bytes) {
  constexpr size_t kKeptBytes = 4096;
  begin_ += num_bytes;
  matched_ = 0;
  if (begin_ > kKeptBytes && begin_ > raw_.size() / 2) {
    raw_.erase(0, begin_);
    dropped_ += begin_;
    begin_ = 0;
  }
}

void MessageBuilder::Add(const StreamEvent& event) {
  switch (event.kind) {
    case StreamEvent::Kind::kReasoning:
      message_.reasoning_content += event.text;
      return;
    case StreamEvent::Kind::kContent:
      message_.content += event.text;
      return;
    case StreamEvent::Kind::kCallStart:
      message_.tool_calls.push_back({event.text, {}});
      return;
    case StreamEvent::Kind::kArguments:
      message_.tool_calls.back().arguments += event.text;
      return;
    case StreamEvent::Kind::kCallEnd:
    case StreamEvent::Kind::kFinish:
      return;
  }
}

}  // namespace dsv4::chat
