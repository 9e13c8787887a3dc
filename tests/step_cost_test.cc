// A step allocates nothing, takes no lock, and reads no clock where nobody profiles. This program
// stands in for the C library's functions and counts their calls.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/model_executor.h"
#include "kernels/dispatch.h"
#include "ops/cpu_ops.h"
#include "tests/support/patience.h"

namespace {

enum Counted { kAllocations, kReleases, kLocks, kClocks, kNumCounted };
// Advice on pages to the system; in a thread beside the step, so counted apart.
std::atomic<int64_t> num_advised{0};
std::atomic<bool> counting{false};
std::array<std::atomic<int64_t>, kNumCounted> calls;

void Count(Counted what) {
  if (counting.load(std::memory_order_relaxed)) ++calls[what];
}

// The C library's own function.
template <class Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// What the C library calls its own allocator, for programs that stand in for it.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* data);

void* malloc(size_t size) {
  Count(kAllocations);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count(kAllocations);
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  Count(kAllocations);
  return __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
  Count(kAllocations);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count(kAllocations);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** data, size_t alignment, size_t size) {
  Count(kAllocations);
  *data = __libc_memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}
void free(void* data) {
  if (data != nullptr) Count(kReleases);
  __libc_free(data);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static auto* const real = Real<int(pthread_mutex_t*)>("pthread_mutex_lock");
  Count(kLocks);
  return real(mutex);
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  static auto* const real = Real<int(pthread_mutex_t*)>("pthread_mutex_trylock");
  Count(kLocks);
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static auto* const real = Real<int(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  Count(kLocks);
  return real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static auto* const real = Real<int(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  Count(kLocks);
  return real(lock);
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static auto* const real = Real<int(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait");
  Count(kLocks);
  return real(condition, mutex);
}
int pthread_cond_signal(pthread_cond_t* condition) {
  static auto* const real = Real<int(pthread_cond_t*)>("pthread_cond_signal");
  Count(kLocks);
  return real(condition);
}
int pthread_cond_broadcast(pthread_cond_t* condition) {
  static auto* const real = Real<int(pthread_cond_t*)>("pthread_cond_broadcast");
  Count(kLocks);
  return real(condition);
}

int madvise(void* begin, size_t size, int advice) {
  static auto* const real = Real<int(void*, size_t, int)>("madvise");
  ++num_advised;
  return real(begin, size, advice);
}

int clock_gettime(clockid_t clock, timespec* time) {
  static auto* const real = Real<int(clockid_t, timespec*)>("clock_gettime");
  Count(kClocks);
  return real(clock, time);
}
}  // extern "C"

namespace dsv4 {
namespace {

using Counts = std::array<int64_t, kNumCounted>;

// The calls of all threads while `body` runs.
template <class Body>
Counts CountsOf(Body body) {
  for (auto& count : calls) count = 0;
  counting = true;
  body();
  counting = false;
  Counts counts;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = calls[i];
  return counts;
}

constexpr Counts kNothing = {};

TEST(StepCounters, Count) {
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_ptr<std::vector<int>> kept;
  const Counts counts = CountsOf([&] {
    kept = std::make_unique<std::vector<int>>(5);
    const std::lock_guard lock(mutex);
    condition.notify_all();
    static_cast<void>(std::chrono::steady_clock::now());
  });
  EXPECT_EQ(counts[kAllocations], 2);
  EXPECT_GE(counts[kLocks], 1);
  EXPECT_EQ(counts[kClocks], 1);
  EXPECT_EQ(CountsOf([&] { kept.reset(); })[kReleases], 2);
}

class StepCost : public ::testing::TestWithParam<const kernels::Kernels*> {
 protected:
  static constexpr int32_t kSequences = 3;
  static constexpr int32_t kPages = 3;  // of each sequence

  StepCost() : ops_(MakeCpuOps(*GetParam(), 3)) { Load({}); }

  void Load(const model::Model::Options& options) {
    auto model = model::Model::Load(DSV4_TEST_DATA "/model/flash-tiny/checkpoint", *ops_, options);
    EXPECT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
    auto cache = model::KvCache::Create(model_->config(), kSequences, kSequences * kPages);
    EXPECT_TRUE(cache) << cache.error().message;
    cache_ = std::make_unique<model::KvCache>(std::move(*cache));
    pages_.resize(kSequences * kPages);
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // A batch of `rows` more rows of every sequence, all of it prepared before it is run.
  struct Planned {
    std::vector<int32_t> tokens;
    std::vector<model::SequenceRun> runs;
    std::vector<int32_t> logit_rows;
    std::vector<float> logits;
    std::vector<Bf16> hidden;
  };
  Planned Plan(int64_t start, int32_t rows) const {
    const model::ModelConfig& config = model_->config();
    Planned plan;
    for (int32_t s = 0; s < kSequences; ++s) {
      for (int32_t i = 0; i < rows; ++i) plan.tokens.push_back((7 * i + s) % 512);
      plan.runs.push_back(
          {s, start, rows, std::span(pages_).subspan(static_cast<size_t>(s * kPages), kPages)});
      plan.logit_rows.push_back((s + 1) * rows - 1);
    }
    plan.logits.resize(kSequences * static_cast<size_t>(config.vocab_size));
    plan.hidden.resize(plan.tokens.size() *
                       static_cast<size_t>(config.hc_mult * config.hidden_size));
    return plan;
  }
  void Run(Planned& plan) {
    const model::Batch batch{plan.tokens, plan.runs, plan.logit_rows};
    model_->Forward(batch, *cache_, {plan.logits.data(), plan.hidden.data(), nullptr});
    model_->ForwardMtp(0, batch, plan.hidden.data(), *cache_,
                       {plan.logits.data(), nullptr, nullptr});
  }

  std::unique_ptr<Ops> ops_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::KvCache> cache_;
  std::vector<int32_t> pages_;
};

TEST_P(StepCost, AForwardAllocatesNothingLocksNothingAndReadsNoClock) {
  Planned warm_up = Plan(0, 5);
  Planned prefill = Plan(5, 140);
  Planned decode = Plan(145, 1);
  Run(warm_up);
  EXPECT_EQ(CountsOf([&] { Run(prefill); }), kNothing);
  EXPECT_EQ(CountsOf([&] { Run(decode); }), kNothing);
}

TEST_P(StepCost, AProfileReadsTheClockAndNoneCostsNothing) {
  Planned plan = Plan(0, 5);
  OpProfile profile;
  ops_->set_profile(&profile);
  const Counts counts = CountsOf([&] { Run(plan); });
  int64_t sections = 0;
  for (const OpProfile::Row& row : profile.rows) sections += row.calls;
  EXPECT_GE(counts[kClocks], 2 * sections) << "the beginning and end of each";
  EXPECT_EQ(counts[kAllocations], 0);
  ops_->set_profile(nullptr);
  EXPECT_EQ(CountsOf([&] { Run(plan); }), kNothing);
}

// Advice given since the last call, once no more comes.
int64_t Advised() {
  int64_t seen = -1;
  while (seen != num_advised) {
    seen = num_advised;
    std::this_thread::sleep_for(test::kBriefly);
  }
  num_advised = 0;
  return seen;
}

TEST_P(StepCost, ExpertsInMemoryAreReadOnceAndThenTheSystemIsNotAsked) {
  ASSERT_TRUE(model_->weights_stay_in_memory());
  Planned plan = Plan(0, 140);
  Advised();
  Run(plan);
  EXPECT_GT(Advised(), 0);
  Run(plan);
  EXPECT_EQ(Advised(), 0);
}

TEST_P(StepCost, ExpertsThatHaveNoRoomInMemoryAreReadAtEachStepAndNothingElseIsDone) {
  Planned warm_up = Plan(0, 5);
  Planned decode = Plan(5, 1);
  Run(warm_up);
  Run(decode);
  const std::vector<float> logits = decode.logits;
  Load({.memory_bytes = 1});
  ASSERT_FALSE(model_->weights_stay_in_memory());
  Run(warm_up);
  for (int i = 0; i < 2; ++i) {
    Advised();
    EXPECT_EQ(CountsOf([&] { Run(decode); }), kNothing);
    EXPECT_GT(Advised(), 0);
  }
  Run(warm_up);
  Run(decode);
  EXPECT_EQ(decode.logits, logits);
}

engine::Request MakeRequest(uint64_t id, size_t length, float temperature) {
  engine::Request request;
  request.id = id;
  request.prompt.assign(length, 5);
  request.max_new_tokens = 200;
  request.ignore_eos = true;
  request.sampling.temperature = temperature;
  return request;
}

// Two answers side by side, one greedy and one sampled; the second prompt takes several steps.
// What an engine does once, and the step that admits a request does for it, lasts. The
// log-probabilities of events, which leave the engine, are not asked for.
TEST(EngineStepCost, StepsAfterTheFirstAllocateNothingAndLockNothing) {
  const std::unique_ptr<Ops> ops = MakeCpuOps(**kernels::Choose(""), 2);
  auto model =
      model::Model::Load(DSV4_TEST_DATA "/model/flash-tiny/checkpoint", *ops, {.max_rows = 64});
  ASSERT_TRUE(model) << model.error().message;
  const engine::MemoryPlan plan{
      .context = 1000, .num_slots = 2, .num_pages = 20, .num_snapshots = 4};
  auto executor = engine::ModelExecutor::Create(std::move(*model), plan);
  ASSERT_TRUE(executor) << executor.error().message;
  engine::Engine engine(std::move(*executor), {.snapshot_interval = 32});
  std::vector<engine::TokenEvent> events;
  events.reserve(10);
  ASSERT_TRUE(engine.Submit(MakeRequest(9, 5, 0.8f)));
  engine.Step(&events);
  ASSERT_TRUE(engine.Cancel(9));
  for (const uint64_t id : {1, 2}) {
    engine::Request request = MakeRequest(id, id == 1 ? 20 : 150, id == 1 ? 0.0f : 0.8f);
    request.session = engine.OpenSession();
    ASSERT_TRUE(engine.Submit(std::move(request)));
  }
  engine.Step(&events);
  for (int step = 1; step < 195; ++step) {
    events.clear();
    ASSERT_EQ(CountsOf([&] { engine.Step(&events); }), kNothing) << "step " << step;
  }
  EXPECT_EQ(events.size(), 2u) << "both are still at work";
}

std::string TestName(const ::testing::TestParamInfo<const kernels::Kernels*>& info) {
  return info.param->name;
}

INSTANTIATE_TEST_SUITE_P(Kernels, StepCost, ::testing::ValuesIn(kernels::Runnable()), TestName);

}  // namespace
}  // namespace dsv4
