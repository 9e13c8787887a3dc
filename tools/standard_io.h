// Standard input and output as whole byte strings.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dsv4::tools {

Result<std::string> ReadStandardInput();
Status WriteStandardOutput(std::string_view bytes);
// A note to standard error. Where it cannot be written there is nobody to tell.
void WriteStandardError(std::string_view text);

}  // namespace dsv4::tools
