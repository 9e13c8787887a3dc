// Which kernel set the program uses.
#pragma once

#include "base/result.h"
#include "kernels/kernels.h"

namespace dsv4::tools {

// The set named by the environment variable DSV4_KERNELS, or the fastest that runs here where it is
// unset or empty. An unknown name is a usage error that lists the known ones; a set whose
// self-check fails is an error that names the kernel.
Result<const kernels::Kernels*> KernelsFromEnvironment();

}  // namespace dsv4::tools
