// The subcommands, one file each. Add a line here and in main.cc's table for a new one.
#pragma once

#include "tools/command.h"

namespace dsv4::tools {

}  // namespace dsv4::tools
