// Standard input and output as whole byte strings.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace dsv4::tools {

Result<std::string> ReadStandardInput();
Status WriteStandardOutput(std::string_view bytes);

}  // namespace dsv4::tools
