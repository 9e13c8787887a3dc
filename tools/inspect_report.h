// What `dsv4 inspect` found, as a table for people and as JSON for programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/verify.h"
#include "model/config.h"
#include "model/memory_plan.h"
#include "tensor/dtype.h"

namespace dsv4::tools {

struct FaultyTensor {
  std::string file;
  std::string tensor;
  TensorFaults faults;
};

struct InspectReport {
  std::filesystem::path model;
  model::ModelConfig config;
  model::ParameterCounts parameters;
  model::MemoryPlan memory;

  struct TypeTotal {
    int64_t num_tensors = 0;
    int64_t bytes = 0;
  };
  std::map<DType, TypeTotal> types;
  int64_t num_tensors = 0;
  int64_t num_files = 0;
  int64_t file_bytes = 0;
  int world = 1;  // ranks of a converted checkpoint
  std::vector<std::string> unused;
  std::string error;  // why the tensors do not make the model; empty where they do

  bool verified = false;
  std::vector<FaultyTensor> faulty;
};

std::string ReportText(const InspectReport& report);
// One object: model, config (the names of config.json), parameters {total, active_per_token, mtp},
// tensors, files, ranks, types {DTYPE: {tensors, bytes}}, memory {weights_bytes, joined_bytes,
// kv_bytes_per_token, kv_bytes_at_1m_tokens, state_bytes_per_sequence, workspace_bytes,
// available_bytes, context_tokens, longest_context_tokens, verdict}, unused [names]; where the
// tensors do not make the model: error; verified: faults [{file, tensor, nan, infinite, nan_scales,
// out_of_range}].
std::string ReportJson(const InspectReport& report);

}  // namespace dsv4::tools
