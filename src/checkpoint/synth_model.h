// Configuration and tensor list of a synthetic checkpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/synth_config.h"
#include "checkpoint/synth_fill.h"

namespace dsv4 {

class SynthModel {
 public:
  // `preset` is flash, pro, tiny-flash or tiny-pro. A setting replaces the value of a key of
  // config.json: as it is where it is JSON, else as a JSON string. The last one of a key counts.
  static Result<SynthModel> Make(std::string_view preset, std::span<const SynthSetting> settings);

  // The text of config.json.
  const std::string& config_json() const { return config_json_; }
  // In file order.
  const std::vector<SynthTensor>& tensors() const { return tensors_; }
  uint64_t data_bytes() const;

 private:
  SynthModel() = default;

  std::string config_json_;
  std::vector<SynthTensor> tensors_;
};

}  // namespace dsv4
