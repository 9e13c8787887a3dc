#include "kernels/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/support/time_limit.h"

namespace dsv4::kernels {
namespace {

using testing::HasSubstr;

TEST(Choose, ReferenceIsAlwaysThereAndFirst) {
  ASSERT_FALSE(Compiled().empty());
  EXPECT_STREQ(Compiled().front()->name, "ref");
  EXPECT_STREQ(Runnable().front()->name, "ref");
  EXPECT_EQ(Choose("ref").value(), Compiled().front());
}

TEST(Choose, EmptyNamePicksTheFastestThatRuns) { EXPECT_EQ(Choose("").value(), Runnable().back()); }

TEST(Choose, UnknownNameIsAUsageErrorThatListsTheKnown) {
  const auto result = Choose("sse9");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(result.error().message, HasSubstr("sse9"));
  for (const Kernels* table : Compiled()) {
    EXPECT_THAT(result.error().message, HasSubstr(table->name));
  }
}

TEST(Choose, EveryRunnableSetCanBeForced) {
  for (const Kernels* table : Runnable()) EXPECT_EQ(Choose(table->name).value(), table);
}

// Every entry set, none null: a table is an array of pointers behind its name.
TEST(Table, HasEveryEntry) {
  for (const Kernels* table : Compiled()) {
    const void* pointers[sizeof(Kernels) / sizeof(void*)];
    std::memcpy(pointers, table, sizeof(Kernels));
    for (const void* pointer : pointers) EXPECT_NE(pointer, nullptr) << table->name;
  }
}

TEST(Table, EntriesListsEveryMemberAndTheReferenceHasAll) {
  EXPECT_EQ(Entries().size(), sizeof(Kernels) / sizeof(void*) - 1);
  Kernels other = *Choose("ref").value();
  for (const Entry& entry : Entries()) {
    EXPECT_TRUE(entry.own(*Choose("ref").value())) << entry.name;
    EXPECT_FALSE(entry.own(other)) << entry.name << " of a copy is the reference's";
  }
  other.hadamard = nullptr;
  for (const Entry& entry : Entries()) EXPECT_EQ(entry.own(other), entry.name == "hadamard");
}

TEST(SelfCheck, EverySetThatRunsPassesQuickly) {
  for (const Kernels* table : Runnable()) {
    const auto start = std::chrono::steady_clock::now();
    const Status status = SelfCheck(*table);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_LT(std::chrono::steady_clock::now() - start, test::Within(1)) << table->name;
  }
}

struct Fault {
  const char* entry;
  void (*plant)(Kernels* table);
};

// An entry that does nothing (or gives zero) instead of its work.
template <class>
struct Idle;
template <class R, class... Args>
struct Idle<R (*)(Args...)> {
  static R Function(Args...) { return R(); }
};

#define DSV4_IDLE_FAULT(entry)                                                             \
  Fault {                                                                                  \
#entry, [](Kernels * table) { table->entry = Idle<decltype(table->entry)>::Function; } \
  }

const Fault kFaults[] = {
    DSV4_IDLE_FAULT(act_quant),
    DSV4_IDLE_FAULT(act_quant_in_place),
    DSV4_IDLE_FAULT(pack_index_rows),
    DSV4_IDLE_FAULT(unpack_index_rows),
    DSV4_IDLE_FAULT(pack_kv_rows),
    DSV4_IDLE_FAULT(unpack_kv_rows),
    DSV4_IDLE_FAULT(prepared_row_bytes),
    DSV4_IDLE_FAULT(prepare),
    DSV4_IDLE_FAULT(product),
    DSV4_IDLE_FAULT(rms_norm),
    DSV4_IDLE_FAULT(rms_factor),
    DSV4_IDLE_FAULT(rope),
    DSV4_IDLE_FAULT(hadamard),
    DSV4_IDLE_FAULT(hc_split),
    DSV4_IDLE_FAULT(hc_head_pre),
    DSV4_IDLE_FAULT(hc_combine),
    DSV4_IDLE_FAULT(hc_post),
    DSV4_IDLE_FAULT(sparse_attention_scratch_bytes),
    DSV4_IDLE_FAULT(sparse_attention),
    DSV4_IDLE_FAULT(index_scores),
    DSV4_IDLE_FAULT(top_k),
    DSV4_IDLE_FAULT(pool),
    DSV4_IDLE_FAULT(route),
    DSV4_IDLE_FAULT(swiglu),
};

#undef DSV4_IDLE_FAULT

TEST(SelfCheck, CatchesAndNamesAnIdleVersionOfEveryEntry) {
  EXPECT_EQ(std::size(kFaults), sizeof(Kernels) / sizeof(void*) - 1) << "an entry has no fault";
  for (const Fault& fault : kFaults) {
    Kernels broken = *Choose("ref").value();
    fault.plant(&broken);
    const Status status = SelfCheck(broken);
    ASSERT_FALSE(status) << fault.entry;
    EXPECT_THAT(status.error().message, HasSubstr(fault.entry));
  }
}

// Faults of the kind that a port makes: small, and only in part of the output.
const Kernels& Ref() { return *Choose("ref").value(); }

const Fault kSubtleFaults[] = {
    {"act_quant",
     [](Kernels* t) {
       t->act_quant = [](const Bf16* x, int64_t rows, int64_t cols, int32_t block, ActScale scale,
                         uint8_t* codes, float* scales) {
         Ref().act_quant(x, rows, cols, block, scale, codes, scales);
         codes[rows * cols - 1] ^= 1;
       };
     }},
    {"prepared_row_bytes",
     [](Kernels* t) {
       t->prepared_row_bytes = [](Activation a, int64_t cols, int32_t block) {
         return Ref().prepared_row_bytes(a, cols, block) + 4;
       };
     }},
    {"prepare",
     [](Kernels* t) {
       t->prepare = [](const PrepareArgs& args) {
         PrepareArgs wrong = args;
         wrong.scale = ActScale::kPowerOfTwo;
         Ref().prepare(wrong);
       };
     }},
    {"product",
     [](Kernels* t) {
       t->product = [](const ProductArgs& args) {
         ProductArgs wrong = args;  // a slice that starts one row too early
         wrong.begin = args.begin - 1;
         wrong.end = args.end - 1;
         Ref().product(wrong);
       };
     }},
    {"rope",
     [](Kernels* t) {
       t->rope = [](const RopeArgs& args) {
         RopeArgs wrong = args;
         wrong.inverse = false;
         Ref().rope(wrong);
       };
     }},
    {"sparse_attention",
     [](Kernels* t) {
       t->sparse_attention = [](const SparseAttentionArgs& args) {
         SparseAttentionArgs wrong = args;
         wrong.num_rows = args.num_rows - 1;
         Ref().sparse_attention(wrong);
       };
     }},
    {"sparse_attention_scratch_bytes",
     [](Kernels* t) {
       t->sparse_attention_scratch_bytes = [](int32_t heads, KvRowLayout layout) {
         return Ref().sparse_attention_scratch_bytes(heads, layout) / 2;
       };
     }},
    {"swiglu",
     [](Kernels* t) {
       t->swiglu = [](const SwigluArgs& args) {
         SwigluArgs wrong = args;
         wrong.limit = 0.0f;
         Ref().swiglu(wrong);
       };
     }},
    {"route",
     [](Kernels* t) {
       t->route = [](const RouteArgs& args) {
         RouteArgs wrong = args;
         wrong.bias = nullptr;
         Ref().route(wrong);
       };
     }},
};

TEST(SelfCheck, CatchesSubtleFaults) {
  for (const Fault& fault : kSubtleFaults) {
    Kernels broken = Ref();
    fault.plant(&broken);
    const Status status = SelfCheck(broken);
    ASSERT_FALSE(status) << fault.entry;
    EXPECT_THAT(status.error().message, HasSubstr(fault.entry));
  }
}

}  // namespace
}  // namespace dsv4::kernels
