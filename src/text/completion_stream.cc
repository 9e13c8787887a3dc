#include "text/completion_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"
#include "text/completion_grammar.h"

namespace dsv4::chat {
namespace {

// Whole markers, as they count here.
constexpr std::string_view kBlockHead = "\n\n<｜DSML｜tool_calls>\n";
constexpr std::string_view kInvokeEnd = "</｜DSML｜invoke>\n";
constexpr std::string_view kParameterMarker = "</｜DSML｜parameter";
constexpr std::string_view kParameterEnd = "</｜DSML｜parameter>\n";
constexpr size_t kLongestMarker = 32;
static_assert(kBlockHead.size() <= kLongestMarker && kBos.size() <= kLongestMarker &&
              kEos.size() <= kLongestMarker && kParameterEnd.size() <= kLongestMarker);

bool IsProperPrefix(std::string_view text, std::string_view marker) {
  return text.size() < marker.size() && marker.starts_with(text);
}

}  // namespace

CompletionStream::CompletionStream(Mode mode)
    : state_(mode == Mode::kThinking ? State::kReasoning : State::kContent) {}

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
      const bool stopped = Raw() == kEos;
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
    if (!ending_ && IsProperPrefix(Raw(), kEos)) return;
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
  static constexpr std::array<std::string_view, 2> kInReasoning = {kThinkEnd, kEos};
  static constexpr std::array<std::string_view, 2> kInContent = {kEos, kBlockHead};
  const bool in_reasoning = state_ == State::kReasoning;
  const Scan scan = ScanFor(in_reasoning ? kInReasoning : kInContent, Raw());
  EmitText(Raw().substr(0, scan.text_end));
  Commit(scan.text_end);
  if (scan.marker == nullptr) return Outcome::kWaiting;
  if (*scan.marker == kEos) {
    malformed_ = malformed_ || in_reasoning;
    End(true);
  } else if (in_reasoning) {
    Commit(kThinkEnd.size());
    recent_.clear();
    state_ = State::kContent;
  } else {
    malformed_ = malformed_ || after_block_;
    matched_ = kBlockHead.size();
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
  const Outcome invoke = Accept(kInvokeOpen);
  if (invoke == Outcome::kAdvanced) {
    state_ = State::kInvokeName;
    return invoke;
  }
  const Outcome close = Accept(kBlockClose);
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
  static constexpr std::array<std::string_view, 2> kEnds = {kParameterOpen, kInvokeClose};
  const std::string_view begun = Rest().substr(SpaceRun(Rest()));
  if (!begun.starts_with(kNameHead) && !kNameHead.starts_with(begun)) return Outcome::kMismatch;
  size_t end = 0;
  if (const Outcome found = FindHeadEnd(kEnds, &invoke_ahead_, &end); found != Outcome::kAdvanced)
    return found;
  const std::string_view head = Rest();
  const bool parameter_follows = head.substr(end).starts_with(kParameterOpen);
  const auto name = InvokeNameOf(head.substr(0, end), parameter_follows);
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
  const Outcome parameter = Accept(kParameterOpen);
  if (parameter == Outcome::kAdvanced) {
    state_ = State::kParameterName;
    return parameter;
  }
  const Outcome end = Accept(kInvokeEnd);
  if (end == Outcome::kAdvanced) {
    CloseCall();
    Commit(matched_);
    state_ = State::kItem;
    return end;
  }
  return parameter == Outcome::kWaiting ? parameter : end;
}

CompletionStream::Outcome CompletionStream::StepParameterName() {
  static constexpr std::array<std::string_view, 3> kEnds = {kStringTrue, kStringFalse,
                                                            kParameterClose};
  const std::string_view head = Rest();
  if (IsProperPrefix(head, kParameterNameHead)) return Outcome::kWaiting;
  if (!head.starts_with(kParameterNameHead)) return Outcome::kMismatch;
  size_t end = 0;
  if (const Outcome found = FindHeadEnd(kEnds, &parameter_ahead_, &end);
      found != Outcome::kAdvanced)
    return found;
  const std::string_view tail = head.substr(end);
  if (end < kParameterNameHead.size() || tail.starts_with(kParameterClose)) {
    return Outcome::kMismatch;
  }
  value_is_string_ = tail.starts_with(kStringTrue);
  const std::string_view name =
      head.substr(kParameterNameHead.size(), end - kParameterNameHead.size());
  Emit(StreamEvent::Kind::kArguments, fmt::format("{}{}: {}", names_.empty() ? "" : ", ",
                                                  json::Quote(name), value_is_string_ ? "\"" : ""));
  if (!names_.insert(std::string(name)).second) malformed_ = true;
  Commit(matched_ + end + (value_is_string_ ? kStringTrue : kStringFalse).size());
  state_ = State::kValue;
  return Outcome::kAdvanced;
}

CompletionStream::Outcome CompletionStream::StepValue() {
  static constexpr std::array<std::string_view, 2> kMarkers = {kParameterMarker, kParameterClose};
  Scan scan = ScanFor(kMarkers, Raw());
  // EOS counts only as the last thing of all; so does the beginning of it.
  if (scan.marker == nullptr) {
    const std::string_view text = Raw();
    for (size_t i = text.size() - std::min(text.size(), kEos.size()); i < scan.text_end; ++i) {
      if (kEos.starts_with(text.substr(i))) scan.text_end = i;
    }
  }
  EmitValue(Raw().substr(0, scan.text_end));
  Commit(scan.text_end);
  if (scan.marker == nullptr) return Outcome::kWaiting;
  if (*scan.marker == kParameterClose) return Outcome::kMismatch;  // without its '<'
  state_ = State::kValueEnd;
  return Outcome::kAdvanced;
}

CompletionStream::Outcome CompletionStream::StepValueEnd() {
  const Outcome outcome = Accept(kParameterEnd);
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
  if (Raw().starts_with(kEos)) return;
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
  malformed_ = std::any_of(kForbidden.begin(), kForbidden.end(), [&](std::string_view token) {
    return recent_.find(token) != std::string::npos;
  });
  if (recent_.size() > kLongestMarker) recent_.erase(0, recent_.size() - kLongestMarker);
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
