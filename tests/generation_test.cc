// The engine on a real model: kept, rewound, chunked and paused states give the bits of a fresh
// one.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/engine.h"
#include "engine/model_executor.h"
#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"

namespace dsv4::engine {
namespace {

using Tokens = std::vector<int32_t>;

constexpr char kModel[] = DSV4_TEST_DATA "/model/flash-tiny/checkpoint";

// An engine and all it stands on.
struct Machine {
  Machine(int threads, int32_t max_rows, const MemoryPlan& plan, const EngineOptions& options) {
    ops = MakeCpuOps(**kernels::Choose(""), threads);
    auto loaded = model::Model::Load(kModel, *ops, {.max_rows = max_rows});
    EXPECT_TRUE(loaded) << loaded.error().message;
    auto executor = ModelExecutor::Create(std::move(*loaded), plan);
    EXPECT_TRUE(executor) << executor.error().message;
    engine = std::make_unique<Engine>(std::move(*executor), options);
  }
  // The events of all requests until none is left.
  std::map<uint64_t, std::vector<TokenEvent>> Run() {
    std::map<uint64_t, std::vector<TokenEvent>> answers;
    std::vector<TokenEvent> events;
    for (bool more = true; more; events.clear()) {
      more = engine->Step(&events);
      engine->CheckIntegrity();
      for (TokenEvent& event : events) answers[event.request].push_back(std::move(event));
    }
    return answers;
  }

  std::unique_ptr<Ops> ops;
  std::unique_ptr<Engine> engine;
};

Request MakeRequest(uint64_t id, Tokens prompt) {
  Request request;
  request.id = id;
  request.prompt = std::move(prompt);
  request.sampling = {.temperature = 0.8f, .top_p = 0.95f, .seed = id, .num_top_logprobs = 5};
  request.max_new_tokens = 6;
  request.ignore_eos = true;
  return request;
}

void ExpectSame(const std::vector<TokenEvent>& found, const std::vector<TokenEvent>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].token, expected[i].token) << "token " << i;
    EXPECT_EQ(found[i].logprob, expected[i].logprob) << "token " << i;
    EXPECT_EQ(found[i].top, expected[i].top) << "token " << i;
    EXPECT_EQ(found[i].finish, expected[i].finish) << "token " << i;
  }
}

// Conversations that go on and branch at lengths across window (16), entries (4, 128) and pages
// (128), under scarce pages, slots and snapshots; the reference computes every prompt at once and
// alone.
TEST(GenerationTest, KeptRewoundChunkedAndPausedStatesGiveTheBitsOfAFreshOne) {
  const MemoryPlan scarce{.context = 512, .num_slots = 3, .num_pages = 6, .num_snapshots = 4};
  const MemoryPlan ample{.context = 512, .num_slots = 1, .num_pages = 4};
  Machine tested(2, 37, scarce, {.snapshot_interval = 48});
  Machine reference(1, 512, ample, {});
  std::mt19937 random(1);
  std::vector<Tokens> texts(3);
  std::vector<SessionId> sessions;
  for (size_t i = 0; i < texts.size(); ++i) sessions.push_back(tested.engine->OpenSession());
  uint64_t id = 1;
  for (int round = 0; round < 6; ++round) {
    std::vector<Request> requests;
    for (size_t s = 0; s < texts.size(); ++s) {
      Tokens prompt = texts[s];
      if (!prompt.empty() && random() % 2 == 0) prompt.resize(1 + random() % prompt.size());
      for (auto n = 1 + random() % 90; n-- > 0 && prompt.size() < 480;) {
        prompt.push_back(static_cast<int32_t>(random() % 512));
      }
      requests.push_back(MakeRequest(id++, prompt));
      requests.back().session = sessions[s];
      const auto length = static_cast<int64_t>(prompt.size());
      if (length > 1) requests.back().branch_points = {length - 1};
      ASSERT_TRUE(tested.engine->Submit(requests.back()));
    }
    auto answers = tested.Run();
    for (size_t s = 0; s < texts.size(); ++s) {
      Request alone = requests[s];
      alone.session = 0;
      alone.branch_points.clear();
      ASSERT_TRUE(reference.engine->Submit(alone));
      ExpectSame(answers[alone.id], reference.Run()[alone.id]);
      texts[s] = alone.prompt;
      for (const TokenEvent& event : answers[alone.id]) texts[s].push_back(event.token);
    }
  }
  EXPECT_GT(tested.engine->stats().num_restored, 0u);
  EXPECT_GT(tested.engine->stats().num_cached_tokens, 100u);
  for (const SessionId session : sessions) tested.engine->CloseSession(session);
  tested.engine->CheckIntegrity();
  EXPECT_EQ(tested.engine->num_pages_used(), 0);
}

}  // namespace
}  // namespace dsv4::engine
