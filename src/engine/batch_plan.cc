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
