#include "tools/kernel_choice.h"

#include <cstdlib>

#include "kernels/dispatch.h"

namespace dsv4::tools {

Result<const kernels::Kernels*> KernelsFromEnvironment() {
  const char* const name = std::getenv("DSV4_KERNELS");
  Result<const kernels::Kernels*> chosen = kernels::Choose(name != nullptr ? name : "");
  if (!chosen) return Within("DSV4_KERNELS", std::move(chosen).error());
  DSV4_TRY(kernels::SelfCheck(**chosen));
  return chosen;
}

}  // namespace dsv4::tools
