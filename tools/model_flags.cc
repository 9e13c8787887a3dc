#include "tools/model_flags.h"

#include "ops/cpu_ops.h"
#include "platform/processors.h"
#include "tools/kernel_choice.h"
#include "tools/option_checks.h"

namespace dsv4::tools {

void ModelFlags::AddTo(CLI::App* verb) {
  verb->add_option("--model", model, "Folder of the model, or org/name in the Hugging Face cache")
      ->required();
  verb->add_option("--threads", threads,
                   "Threads to compute with; one for each core of the machine where absent")
      ->transform(WholeNumber(1, 1024));
}

int ModelFlags::NumThreads() const { return threads > 0 ? threads : DefaultThreads(); }

Result<std::unique_ptr<Ops>> StartOps(const ModelFlags& flags) {
  DSV4_ASSIGN(const kernels::Kernels* kernels, KernelsFromEnvironment());
  return MakeCpuOps(*kernels, flags.NumThreads());
}

}  // namespace dsv4::tools
