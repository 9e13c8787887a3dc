// Values that no weight of a sound checkpoint has.
#pragma once

#include <cstdint>

#include "checkpoint/safetensors.h"

namespace dsv4 {

struct TensorFaults {
  int64_t num_nan = 0;           // BF16, F32 and E4M3 codes 0x7F, 0xFF
  int64_t num_infinite = 0;      // BF16 and F32
  int64_t num_nan_scales = 0;    // E8M0 codes 0xFF
  int64_t num_out_of_range = 0;  // entries of tid2eid that name no expert

  bool any() const {
    return num_nan != 0 || num_infinite != 0 || num_nan_scales != 0 || num_out_of_range != 0;
  }
};

// Reads the whole tensor. Types whose every code is a value (FP4, integers) are read and have no
// fault.
TensorFaults FindFaults(const TensorInfo& tensor, int64_t num_experts);

}  // namespace dsv4
