// Standard input and output as whole byte strings.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dsv4::tools {

Result<std::string> ReadStandardInput();
Status WriteStandardOutput(std::string_view bytes);
// The same; a terminal also gets the line end that `text` lacks, so that no prompt sticks to it.
Status WriteTextToStandardOutput(std::string_view text);
// Whether a write to standard output failed since its reader went away, as `head` does.
bool ReaderOfStandardOutputIsGone();
// A note to standard error. Where it cannot be written there is nobody to tell.
void WriteStandardError(std::string_view text);

}  // namespace dsv4::tools
