// An executor without a model for tests of everything above it. The logits of a row are a hash of
// all tokens of its sequence up to there, but computed the way a model is: from what slots and
// pages hold. A row that finds another history there than it should gives other logits, or stops
// the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/executor.h"
#include "model/kv_cache.h"

namespace dsv4::test {

class FakeExecutor : public engine::Executor {
 public:
  // Called after the logits of one row are made; `history`: the hash of its tokens.
  using Script = std::function<void(uint64_t history, std::span<float> logits)>;

  explicit FakeExecutor(const engine::ExecutorLimits& limits)
      : limits_(limits),
        slots_(static_cast<size_t>(limits.num_slots)),
        snapshots_(static_cast<size_t>(limits.num_snapshots)),
        pages_(static_cast<size_t>(limits.num_pages)) {}

  static uint64_t Extend(uint64_t history, int32_t token) {
    uint64_t x = history * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(token) + 1;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 27);
  }
  static uint64_t HistoryOf(std::span<const int32_t> tokens) {
    uint64_t history = 0;
    for (const int32_t token : tokens) history = Extend(history, token);
    return history;
  }
  static void LogitsOf(uint64_t history, uint64_t entries, std::span<float> logits) {
    for (size_t i = 0; i < logits.size(); ++i) {
      const uint64_t x = Extend(history ^ (entries << 1), static_cast<int32_t>(i));
      logits[i] = static_cast<float>(x >> 40) * 0x1p-24f * 8;
    }
  }
  // What Run gives for the last of `tokens`.
  static std::vector<float> Expected(std::span<const int32_t> tokens, int64_t vocab_size) {
    std::vector<float> logits(static_cast<size_t>(vocab_size));
    uint64_t history = 0, entries = 0;
    for (const int32_t token : tokens) {
      history = Extend(history, token);
      entries = Extend(entries, static_cast<int32_t>(history & 0x7fffffff));
    }
    LogitsOf(history, entries, logits);
    return logits;
  }

  void set_script(Script script) { script_ = std::move(script); }
  int64_t num_rows_run() const { return num_rows_run_; }
  int32_t max_runs() const { return max_runs_; }

  const engine::ExecutorLimits& limits() const override { return limits_; }

  void Run(const model::Batch& batch, float* logits) override {
    ASSERT_LE(batch.num_rows(), limits_.max_rows);
    std::map<int32_t, int> seen;
    size_t row = 0, output = 0;
    for (const model::SequenceRun& run : batch.runs) {
      ASSERT_EQ(seen[run.slot]++, 0) << "two runs of slot " << run.slot;
      ASSERT_GE(static_cast<int64_t>(run.pages.size()),
                model::KvLayout::PagesFor(run.start + run.num_rows));
      for (int32_t i = 0; i < run.num_rows; ++i, ++row) {
        RunRow(run, run.start + i, batch.tokens[row]);
        if (output < batch.logit_rows.size() &&
            batch.logit_rows[output] == static_cast<int32_t>(row)) {
          WriteLogits(run, run.start + i,
                      logits + output * static_cast<size_t>(limits_.vocab_size));
          ++output;
        }
      }
    }
    ASSERT_EQ(row, batch.tokens.size());
    ASSERT_EQ(output, batch.logit_rows.size());
    num_rows_run_ += static_cast<int64_t>(row);
    max_runs_ = std::max(max_runs_, static_cast<int32_t>(batch.runs.size()));
  }
  void Save(int32_t slot, int32_t snapshot) override {
    snapshots_.at(static_cast<size_t>(snapshot)) = slots_.at(static_cast<size_t>(slot));
  }
  void Restore(int32_t snapshot, int32_t slot) override {
    slots_.at(static_cast<size_t>(slot)) = snapshots_.at(static_cast<size_t>(snapshot));
  }

 private:
  struct Slot {
    int64_t length = -1;
    uint64_t history = 0;
  };
  using Page = std::vector<uint64_t>;  // an entry for every token

  void RunRow(const model::SequenceRun& run, int64_t position, int32_t token) {
    Slot& slot = slots_.at(static_cast<size_t>(run.slot));
    if (position == 0) slot = {0, 0};
    ASSERT_EQ(slot.length, position) << "slot " << run.slot << " holds another prefix";
    slot.history = Extend(slot.history, token);
    slot.length = position + 1;
    Page& page = PageOf(run, position);
    page.resize(static_cast<size_t>(model::KvLayout::kPageTokens), 0xdead);
    page[static_cast<size_t>(position % model::KvLayout::kPageTokens)] = slot.history;
  }
  void WriteLogits(const model::SequenceRun& run, int64_t position, float* logits) {
    uint64_t entries = 0;
    for (int64_t p = 0; p <= position; ++p) {
      const uint64_t entry = PageOf(run, p)[static_cast<size_t>(p % model::KvLayout::kPageTokens)];
      entries = Extend(entries, static_cast<int32_t>(entry & 0x7fffffff));
    }
    const std::span<float> row(logits, static_cast<size_t>(limits_.vocab_size));
    const uint64_t history = slots_.at(static_cast<size_t>(run.slot)).history;
    LogitsOf(history, entries, row);
    if (script_) script_(history, row);
  }
  Page& PageOf(const model::SequenceRun& run, int64_t position) {
    const auto index = static_cast<size_t>(position / model::KvLayout::kPageTokens);
    return pages_.at(static_cast<size_t>(run.pages[index]));
  }

  const engine::ExecutorLimits limits_;
  std::vector<Slot> slots_;
  std::vector<Slot> snapshots_;
  std::vector<Page> pages_;
  Script script_;
  int64_t num_rows_run_ = 0;
  int32_t max_runs_ = 0;
};

}  // namespace dsv4::test
