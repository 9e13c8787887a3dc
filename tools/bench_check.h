// Whether operations answer rightly, so that no wrong kernel is ever measured.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "ops/ops.h"

namespace dsv4::tools {

struct AnswerCheck {
  double error = 0;  // of the logits against those of `ref`: the median over the rows of
                     // |got - want| / |want|
};

// Runs a few tokens at the end of a short synthetic context through the first layer of each kind
// and the head. An error where the logits are not those of the kernel set `ref`, or where one row
// at a time, a few and many do not agree to the last bit.
Result<AnswerCheck> CheckAnswers(const std::filesystem::path& folder, Ops& ops);

}  // namespace dsv4::tools
