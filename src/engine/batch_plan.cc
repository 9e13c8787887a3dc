#include "engine/batch_plan.h"

#include <span>

namespace dsv4::engine {

void BatchPlan::Clear() {
  restores.clear();
  tokens.clear();
  runs.clear();
  sequences.clear();
  pages.clear();
  logit_rows.clear();
  saves.clear();
  targets.clear();
}

void BatchPlan::Reserve(int32_t num_rows, int32_t num_runs, int32_t num_pages) {
  const auto count = static_cast<size_t>(num_runs);
  restores.reserve(count);
  tokens.reserve(static_cast<size_t>(num_rows));
  runs.reserve(count);
  sequences.reserve(count);
  pages.reserve(static_cast<size_t>(num_pages));
  logit_rows.reserve(count);
  saves.reserve(count);
  targets.reserve(count);
}

model::Batch BatchPlan::ToBatch(std::vector<model::SequenceRun>* sequence_runs) const {
  sequence_runs->clear();
  for (const Run& run : runs) {
    const auto run_pages = std::span(pages).subspan(static_cast<size_t>(run.first_page),
                                                    static_cast<size_t>(run.num_pages));
    sequence_runs->push_back({run.slot, run.start, run.num_rows, run_pages});
  }
  return {tokens, *sequence_runs, logit_rows};
}

}  // namespace dsv4::engine
