// One step as plain data: what the scheduler decides and executors run.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/request.h"
#include "model/batch.h"

namespace dsv4::engine {

struct BatchPlan {
  struct Copy {
    int32_t slot;
    int32_t snapshot;
  };
  struct Run {
    int32_t slot;
    int64_t start;  // position of the first row
    int32_t num_rows;
    int32_t first_page;  // index into `pages`
    int32_t num_pages;
  };
  // Whose token a row of the logits decides, and where it will stand.
  struct Target {
    uint64_t request;
    SamplingParams sampling;
    int64_t position;
  };

  std::vector<Copy> restores;  // before the batch
  std::vector<int32_t> tokens;
  std::vector<Run> runs;
  std::vector<uint64_t> sequences;  // [runs] the requests
  std::vector<int32_t> pages;
  std::vector<int32_t> logit_rows;  // indices into tokens, ascending
  std::vector<Copy> saves;          // after the batch
  std::vector<Target> targets;      // [logit_rows]

  bool empty() const { return runs.empty(); }
  void Clear();
  // Room for as many as a plan can have, so that making one need not allocate.
  void Reserve(int32_t num_rows, int32_t num_runs, int32_t num_pages);
  // The batch for the model. It and *runs point into this plan, which must outlive both unchanged.
  model::Batch ToBatch(std::vector<model::SequenceRun>* runs) const;
};

}  // namespace dsv4::engine
