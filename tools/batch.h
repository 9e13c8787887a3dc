// The --batch form of the text commands: one JSON object a line in, one a line out, in the same
// order.
#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>

#include "base/json.h"

namespace dsv4::tools {

// Answers one line. What it returns must be an object; "id" is put first by RunBatch.
using BatchAnswer = std::function<Result<json::Value>(const json::Value& line)>;

// Standard input to standard output until it ends. A line that cannot be answered, or is no JSON
// object, becomes {"id": …, "error": "message"} and the next goes on; "id" is the line's, or null.
// Empty lines are passed over. Answers are written out whenever no further input waits, so a
// program may ask and read.
Status RunBatch(const BatchAnswer& answer);

// An error where the object has a member that is in neither list; it names those of `taken`.
// Members of `passed_over` are let be: a line of recorded cases also holds its answer.
Status CheckMembers(const json::Value& object, std::initializer_list<std::string_view> taken,
                    std::initializer_list<std::string_view> passed_over = {});

// The line's member, which must be a string.
Result<std::string> BatchString(const json::Value& line, std::string_view key);

}  // namespace dsv4::tools
