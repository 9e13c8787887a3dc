#include "base/progress.h"

namespace dsv4 {
namespace {

class Silent : public Progress {
 public:
  void Start(std::string_view, uint64_t) override {}
  void Update(uint64_t) override {}
  void Finish() override {}
};

}  // namespace

Progress& NoProgress() {
  static Silent silent;
  return silent;
}

}  // namespace dsv4
