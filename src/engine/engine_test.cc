#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fake_executor.h"

namespace dsv4::engine {
namespace {

using test::FakeExecutor;
using testing::HasSubstr;

constexpr int32_t kEos = 0;
using Tokens = std::vector<int32_t>;

ExecutorLimits SmallLimits() {
  return {.vocab_size = 40,
          .eos_token_id = kEos,
          .max_positions = 100000,
          .max_rows = 64,
          .num_slots = 4,
          .num_pages = 40,
          .num_snapshots = 8};
}

Tokens RandomTokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(1 + random() % 39);
  return tokens;
}

struct Answer {
  Tokens tokens;
  std::vector<float> logprobs;
  std::optional<FinishReason> finish;
  std::string error;
  int64_t num_cached = 0;
};

// What the request must get, from the definition alone: no engine, no state.
Answer Alone(const Request& request, int64_t context, int64_t vocab_size = 40) {
  Answer answer;
  Sampler sampler;
  Tokens tokens = request.prompt;
  while (true) {
    const auto logits = FakeExecutor::Expected(tokens, vocab_size);
    const Sampled sampled =
        sampler.Sample(logits, request.sampling, static_cast<int64_t>(tokens.size())).value();
    tokens.push_back(sampled.token);
    answer.tokens.push_back(sampled.token);
    answer.logprobs.push_back(sampled.logprob);
    if (sampled.token == kEos && !request.ignore_eos) {
      answer.finish = FinishReason::kStop;
    } else if (std::ranges::count(request.stop_tokens, sampled.token) > 0) {
      answer.finish = FinishReason::kStop;
    } else if (static_cast<int64_t>(answer.tokens.size()) == request.max_new_tokens) {
      answer.finish = FinishReason::kLength;
    } else if (static_cast<int64_t>(tokens.size()) == context) {
      answer.finish = FinishReason::kContext;
    }
    if (answer.finish) return answer;
  }
}

class EngineTest : public testing::Test {
 protected:
  void Make(const ExecutorLimits& limits, const EngineOptions& options = {}) {
    auto executor = std::make_unique<FakeExecutor>(limits);
    executor_ = executor.get();
    engine_ = std::make_unique<Engine>(std::move(executor), options);
  }
  bool Step() {
    std::vector<TokenEvent> events;
    const bool more = engine_->Step(&events);
    engine_->CheckIntegrity();
    for (TokenEvent& event : events) {
      Answer& answer = answers_[event.request];
      EXPECT_FALSE(answer.finish) << "an event after the last one";
      if (event.token != TokenEvent::kNoToken) {
        answer.tokens.push_back(event.token);
        answer.logprobs.push_back(event.logprob);
      }
      answer.finish = event.finish;
      answer.error = event.error;
      answer.num_cached = event.num_cached;
    }
    return more;
  }
  void RunAll() {
    while (Step()) {
    }
  }
  void Submit(const Request& request) {
    const Status status = engine_->Submit(request);
    ASSERT_TRUE(status) << status.error().message;
  }
  void ExpectAlone(const Request& request) {
    const Answer expected = Alone(request, engine_->context());
    const Answer& found = answers_[request.id];
    EXPECT_EQ(found.tokens, expected.tokens) << "request " << request.id;
    EXPECT_EQ(found.logprobs, expected.logprobs) << "request " << request.id;
    EXPECT_EQ(found.finish, expected.finish) << "request " << request.id;
  }

  FakeExecutor* executor_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::map<uint64_t, Answer> answers_;
};

Request MakeRequest(uint64_t id, size_t length, int64_t max_new_tokens = 20) {
  Request request;
  request.id = id;
  request.prompt = RandomTokens(length, static_cast<uint32_t>(id));
  request.sampling = {.temperature = id % 3 == 0 ? 0.0f : 1.0f,
                      .top_p = id % 2 == 0 ? 0.9f : 1.0f,
                      .seed = id,
                      .num_top_logprobs = 1};
  request.max_new_tokens = max_new_tokens;
  return request;
}

TEST_F(EngineTest, ATextIsTheSameAloneAndInABatchWhateverTheChunk) {
  std::vector<Request> requests;
  const size_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 300, 500};
  for (size_t i = 0; i < std::size(lengths); ++i) requests.push_back(MakeRequest(i, lengths[i]));
  for (const int32_t max_rows : {4, 5, 64, 1000}) {
    ExecutorLimits limits = SmallLimits();
    limits.max_rows = max_rows;
    Make(limits);
    answers_.clear();
    for (const Request& request : requests) Submit(request);
    RunAll();
    for (const Request& request : requests) ExpectAlone(request);
    EXPECT_GE(executor_->max_runs(), 3) << "sequences ran together";
    EXPECT_EQ(engine_->num_pages_used(), 0);
  }
}

TEST_F(EngineTest, DecodingGoesOnWhileALongPromptIsTakenInChunks) {
  Make(SmallLimits());
  Request quick = MakeRequest(1, 3, 30);
  quick.ignore_eos = true;
  Submit(quick);
  Step();
  Submit(MakeRequest(2, 600, 5));
  for (size_t step = 2; step <= 10; ++step) {
    Step();
    EXPECT_EQ(answers_[1].tokens.size(), step);
    EXPECT_TRUE(answers_[2].tokens.empty());
    EXPECT_EQ(engine_->PromptProgressOf(2)->num_computed, static_cast<int64_t>((step - 1) * 63));
  }
  RunAll();
  ExpectAlone(quick);
}

TEST_F(EngineTest, EndsAtEosStopTokenLengthAndContext) {
  Make(SmallLimits(), {.context = 50});
  Request request = MakeRequest(1, 10, 1000);
  request.sampling.seed = 4;
  Submit(request);
  request.id = 2;
  request.ignore_eos = true;
  Submit(request);
  const Answer free_running = Alone(request, 50);
  EXPECT_EQ(free_running.tokens.size(), 40u);
  request.id = 3;
  request.stop_tokens = {free_running.tokens[4]};
  Submit(request);
  request.id = 4;
  request.stop_tokens = {};
  request.max_new_tokens = 7;
  Submit(request);
  RunAll();
  EXPECT_EQ(answers_[2].tokens, free_running.tokens);
  EXPECT_EQ(answers_[2].finish, FinishReason::kContext);
  EXPECT_EQ(answers_[3].finish, FinishReason::kStop);
  EXPECT_EQ(answers_[3].tokens.back(), free_running.tokens[4]);
  EXPECT_EQ(answers_[4].finish, FinishReason::kLength);
  EXPECT_EQ(answers_[4].tokens.size(), 7u);
  ASSERT_EQ(answers_[1].finish, FinishReason::kStop);
  EXPECT_EQ(answers_[1].tokens.back(), kEos);
}

TEST_F(EngineTest, RefusesWhatCanNeverRun) {
  Make(SmallLimits(), {.context = 50});
  const auto refused = [&](auto change, ErrorKind kind, const char* words) {
    Request request = MakeRequest(1, 10);
    change(request);
    const Status status = engine_->Submit(request);
    ASSERT_FALSE(status) << words;
    EXPECT_EQ(status.error().kind, kind) << words;
    EXPECT_THAT(status.error().message, HasSubstr(words));
  };
  refused([](Request& r) { r.prompt.clear(); }, ErrorKind::kBadInput, "no tokens");
  refused([](Request& r) { r.prompt = RandomTokens(50, 1); }, ErrorKind::kDoesNotFit,
          "50 tokens, which leaves no room for an answer in a context of 50");
  refused([](Request& r) { r.prompt[3] = 40; }, ErrorKind::kBadInput,
          "token 3 of the prompt is 40");
  refused([](Request& r) { r.prompt[0] = -1; }, ErrorKind::kBadInput, "is -1");
  refused([](Request& r) { r.sampling.temperature = -1; }, ErrorKind::kBadInput, "temperature");
  refused([](Request& r) { r.sampling.top_p = 0; }, ErrorKind::kBadInput, "top_p is 0");
  refused([](Request& r) { r.max_new_tokens = 0; }, ErrorKind::kBadInput, "max_new_tokens is 0");
  const SessionId session = engine_->OpenSession();
  Request first = MakeRequest(5, 10);
  first.session = session;
  Submit(first);
  refused([&](Request& r) { r.session = session; }, ErrorKind::kFailed, "answering another");
  RunAll();
  ExpectAlone(first);
}

TEST_F(EngineTest, ACancelledRequestEndsAtOnceAndFreesItsPages) {
  Make(SmallLimits());
  Submit(MakeRequest(1, 200, 100));
  Submit(MakeRequest(2, 30, 10));
  Step();
  EXPECT_GT(engine_->num_pages_used(), 0);
  EXPECT_TRUE(engine_->Cancel(1));
  EXPECT_FALSE(engine_->Cancel(1));
  EXPECT_FALSE(engine_->Cancel(77));
  RunAll();
  EXPECT_EQ(answers_[1].finish, FinishReason::kCancelled);
  ExpectAlone(MakeRequest(2, 30, 10));
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

// From the third token of request 2 on its logits are NaN.
TEST_F(EngineTest, LogitsThatAreNotFiniteEndTheirRequestAloneWithAnError) {
  Make(SmallLimits());
  std::vector<Request> requests;
  for (uint64_t id = 1; id <= 3; ++id) requests.push_back(MakeRequest(id, 5 + id));
  Tokens text = requests[1].prompt;
  const Answer whole = Alone(requests[1], engine_->context());
  ASSERT_GT(whole.tokens.size(), 2u);
  text.insert(text.end(), whole.tokens.begin(), whole.tokens.begin() + 2);
  executor_->set_script(
      [broken = FakeExecutor::HistoryOf(text)](uint64_t history, std::span<float> logits) {
        if (history == broken) std::ranges::fill(logits, std::numeric_limits<float>::quiet_NaN());
      });
  const SessionId session = engine_->OpenSession();
  requests[1].session = session;
  for (const Request& request : requests) Submit(request);
  RunAll();
  ExpectAlone(requests[0]);
  ExpectAlone(requests[2]);
  const Answer& broken = answers_[2];
  EXPECT_EQ(broken.finish, FinishReason::kError);
  EXPECT_EQ(broken.tokens, Tokens(whole.tokens.begin(), whole.tokens.begin() + 2));
  EXPECT_THAT(broken.error, HasSubstr("token 9: "));
  EXPECT_THAT(broken.error, HasSubstr("found 40 NaN"));
  EXPECT_EQ(engine_->num_pages_used(), 0) << "nothing of it is kept for its session";
  Request again = requests[1];
  again.id = 4;
  again.max_new_tokens = 2;
  Submit(again);
  RunAll();
  EXPECT_EQ(answers_[4].num_cached, 0);
  EXPECT_EQ(answers_[4].tokens, broken.tokens);
  engine_->CloseSession(session);
}

TEST_F(EngineTest, WherePagesRunOutTheYoungestWaitsAndGetsTheSameText) {
  ExecutorLimits limits = SmallLimits();
  limits.num_pages = 6;
  Make(limits);
  std::vector<Request> requests;
  for (uint64_t id = 1; id <= 4; ++id) {
    requests.push_back(MakeRequest(id, 100, 400));
    requests.back().ignore_eos = true;
    Submit(requests.back());
  }
  RunAll();
  EXPECT_GT(engine_->stats().num_preempted, 0u);
  for (const Request& request : requests) ExpectAlone(request);
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

class SessionTest : public EngineTest {
 protected:
  // Runs one turn and returns its whole text.
  Tokens Turn(SessionId session, Tokens prompt, std::vector<int64_t> branch_points = {}) {
    Request request = MakeRequest(next_id_++, 1, 15);
    request.prompt = std::move(prompt);
    request.session = session;
    request.branch_points = std::move(branch_points);
    const int64_t before = executor_->num_rows_run();
    Submit(request);
    RunAll();
    rows_ = executor_->num_rows_run() - before;
    ExpectAlone(request);
    cached_ = answers_[request.id].num_cached;
    Tokens text = request.prompt;
    const Tokens& answer = answers_[request.id].tokens;
    text.insert(text.end(), answer.begin(), answer.end());
    return text;
  }

  uint64_t next_id_ = 1;
  int64_t rows_ = 0;
  int64_t cached_ = 0;
};

TEST_F(SessionTest, APromptThatGoesOnReusesEverything) {
  Make(SmallLimits());
  const SessionId session = engine_->OpenSession();
  Tokens text = Turn(session, RandomTokens(200, 1));
  EXPECT_EQ(cached_, 0);
  const auto computed = static_cast<int64_t>(text.size()) - 1;  // the last token was not run
  text.push_back(5);
  text.push_back(6);
  Turn(session, text);
  EXPECT_EQ(cached_, computed);
}

TEST_F(SessionTest, APromptThatBranchesIsRewoundToTheNewestPointBefore) {
  Make(SmallLimits(), {.snapshot_interval = 50});
  const SessionId session = engine_->OpenSession();
  const Tokens text = Turn(session, RandomTokens(200, 1), {130, 199});
  // Another end after 199 tokens: the branch point.
  Tokens other(text.begin(), text.begin() + 199);
  other.push_back(text[199] == 3 ? 4 : 3);
  Turn(session, other);
  EXPECT_EQ(cached_, 199);
  // After 140: the one at 130. After 120: the interval's at 100. After 20: nothing.
  for (const auto& [prefix, kept] : {std::pair{140, 130}, {120, 100}, {20, 0}}) {
    Tokens branch(text.begin(), text.begin() + prefix);
    branch.push_back(text[static_cast<size_t>(prefix)] == 3 ? 4 : 3);
    branch.push_back(9);
    Turn(session, branch);
    EXPECT_EQ(cached_, kept) << prefix;
  }
}

TEST_F(SessionTest, TheSamePromptAgainComputesItsLastTokenOnly) {
  Make(SmallLimits());
  const SessionId session = engine_->OpenSession();
  const Tokens prompt = RandomTokens(150, 1);
  const Tokens first = Turn(session, prompt, {149});
  const int64_t first_rows = rows_;
  Turn(session, prompt, {149});
  EXPECT_EQ(cached_, 149);
  EXPECT_LE(rows_, first_rows - 149 + 20);
}

TEST_F(SessionTest, KeptStatesGiveWayAndCostOnlyTime) {
  ExecutorLimits limits = SmallLimits();
  limits.num_pages = 5;
  limits.num_snapshots = 2;
  Make(limits, {.snapshot_interval = 16});
  std::vector<SessionId> sessions;
  for (int i = 0; i < 6; ++i) sessions.push_back(engine_->OpenSession());
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < 6; ++i) Turn(sessions[i], RandomTokens(100 + 100 * round, i));
  }
  EXPECT_GT(engine_->stats().num_sessions_evicted, 0u);
  for (const SessionId session : sessions) engine_->CloseSession(session);
  engine_->CheckIntegrity();
  EXPECT_EQ(engine_->num_pages_used(), 0);
}

TEST_F(SessionTest, ACancelledTurnLeavesAStateThatTheNextOneUses) {
  Make(SmallLimits());
  const SessionId session = engine_->OpenSession();
  Request request = MakeRequest(100, 90, 50);
  request.ignore_eos = true;
  request.session = session;
  Submit(request);
  for (int i = 0; i < 8; ++i) Step();
  Tokens text = request.prompt;
  text.insert(text.end(), answers_[100].tokens.begin(), answers_[100].tokens.end());
  engine_->Cancel(100);
  RunAll();
  text.push_back(7);
  Turn(session, text);
  EXPECT_EQ(cached_, static_cast<int64_t>(text.size()) - 2);
}

// Submit, cancel, go on, branch and step in random order under scarce pages, slots and snapshots.
TEST_F(EngineTest, AnyOrderOfEventsEndsWithEveryAnswerRightAndNothingHeld) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    ExecutorLimits limits = SmallLimits();
    limits.num_pages = 12;
    limits.num_slots = 4;
    limits.num_snapshots = 5;
    limits.max_rows = seed % 2 == 0 ? 5 : 40;
    Make(limits, {.snapshot_interval = seed % 3 == 0 ? 0 : 32});
    answers_.clear();
    std::mt19937 random(seed);
    std::map<SessionId, Tokens> texts;  // of the last request of each session
    for (int i = 0; i < 4; ++i) texts[engine_->OpenSession()];
    std::map<uint64_t, Request> requests;
    std::set<uint64_t> cancelled;
    for (uint64_t id = 1; id <= 150; ++id) {
      Request request =
          MakeRequest(id, 1 + random() % 300, static_cast<int64_t>(1 + random() % 60));
      if (random() % 3 != 0) {
        const SessionId session = 1 + random() % 4;
        request.session = session;
        Tokens& text = texts[session];
        if (!text.empty() && random() % 4 != 0) {  // go on, or branch somewhere
          Tokens prompt = text;
          if (random() % 2 == 0) prompt.resize(1 + random() % prompt.size());
          for (auto n = random() % 40; n-- > 0;) prompt.push_back(static_cast<int32_t>(n % 39 + 1));
          if (prompt.size() < 700) request.prompt = std::move(prompt);
        }
        const auto length = static_cast<int64_t>(request.prompt.size());
        if (length > 1) request.branch_points = {length - 1};
      }
      if (const Status status = engine_->Submit(request)) {
        requests[id] = request;
        if (request.session != 0) texts[request.session] = request.prompt;
      } else {
        EXPECT_THAT(status.error().message, HasSubstr("answering another"));
      }
      for (auto n = random() % (id % 20 < 10 ? 12 : 150); n-- > 0;) Step();  // busy, then quiet
      if (random() % 6 == 0) {
        const uint64_t victim = 1 + random() % id;
        if (engine_->Cancel(victim)) cancelled.insert(victim);
        engine_->CheckIntegrity();
      }
      for (auto& [session, text] :
           texts) {  // answers are part of what the next prompt goes on from
        for (const auto& [other, r] : requests) {
          if (r.session == session && answers_[other].finish && random() % 2 == 0) {
            text = r.prompt;
            text.insert(text.end(), answers_[other].tokens.begin(), answers_[other].tokens.end());
          }
        }
      }
    }
    RunAll();
    for (const auto& [id, request] : requests) {
      if (cancelled.contains(id)) {
        EXPECT_EQ(answers_[id].finish, FinishReason::kCancelled);
        const Tokens whole = Alone(request, engine_->context()).tokens;
        ASSERT_LE(answers_[id].tokens.size(), whole.size());
        EXPECT_TRUE(std::ranges::equal(answers_[id].tokens,
                                       std::span(whole).first(answers_[id].tokens.size())));
      } else {
        ExpectAlone(request);
      }
    }
    EXPECT_GT(engine_->stats().num_restored, 0u);
    for (const auto& [session, text] : texts) engine_->CloseSession(session);
    engine_->CheckIntegrity();
    EXPECT_EQ(engine_->num_pages_used(), 0);
  }
}

}  // namespace
}  // namespace dsv4::engine
