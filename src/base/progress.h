// How long operations report where they are. Implementations draw a bar (tools/) or record (tests).
#pragma once

#include <cstdint>
#include <string_view>

namespace dsv4 {

class Progress {
 public:
  virtual ~Progress() = default;
  // A new task of `total` units (bytes, tokens); `what` names it: "synth", "loading".
  virtual void Start(std::string_view what, uint64_t total) = 0;
  // `done` units of the running task are done. Cheap: callers may call it often, from one thread.
  virtual void Update(uint64_t done) = 0;
  virtual void Finish() = 0;
};

// Reports to nobody; the default argument of everything that reports.
Progress& NoProgress();

}  // namespace dsv4
