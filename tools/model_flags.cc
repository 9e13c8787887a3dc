#include "tools/model_flags.h"

#include <utility>

#include "checkpoint/safetensors.h"
#include "ops/cpu_ops.h"
#include "platform/memory_info.h"
#include "platform/processors.h"
#include "tools/interrupt.h"
#include "tools/kernel_choice.h"
#include "tools/option_checks.h"
#include "tools/progress_bar.h"

namespace dsv4::tools {

void ModelFlags::AddTo(CLI::App* verb) {
  verb->add_option("--model", model, "Folder of the model, or org/name in the Hugging Face cache")
      ->required();
  verb->add_option(
          "--threads", threads,
          "Threads to compute with; where absent, one for each physical core that the process may "
          "use (taskset, control groups)")
      ->transform(WholeNumber(1, 1024));
  verb->add_flag("--preload", preload, "Read all weights into memory first");
  verb->add_flag("--mlock", mlock, "Read all weights into memory first and keep them there");
}

int ModelFlags::NumThreads() const { return threads > 0 ? threads : DefaultThreads(); }

Result<std::unique_ptr<Ops>> StartOps(const ModelFlags& flags) {
  DSV4_ASSIGN(const kernels::Kernels* kernels, KernelsFromEnvironment());
  return MakeCpuOps(*kernels, flags.NumThreads());
}

Result<PreloadedFiles> PreloadWeights(const ModelFlags& flags, const std::filesystem::path& folder,
                                      bool quiet) {
  if (!flags.preload && !flags.mlock) return PreloadedFiles();
  DSV4_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(folder, {.join = false}));
  DSV4_ASSIGN(const MemoryInfo memory, ReadMemoryInfo());
  const InterruptScope interrupt;
  ProgressBar progress(quiet);
  auto files = PreloadedFiles::Read(
      checkpoint.files(), memory.available_bytes,
      {.num_threads = flags.NumThreads(), .lock = flags.mlock, .stop = &interrupt.flag()},
      progress);
  if (!files) return Within(flags.mlock ? "--mlock" : "--preload", std::move(files).error());
  return files;
}

}  // namespace dsv4::tools
