// What the CPU and the operating system together let a program use.
#pragma once

#include <string>

namespace dsv4 {

struct CpuFeatures {
  bool intel = false;  // made by Intel
  bool avx2 = false;
  bool fma = false;
  bool f16c = false;
  bool avx_vnni = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512_vbmi = false;
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_tile = false;
  bool amx_bf16 = false;
  bool amx_int8 = false;

  // The names of those present, separated by blanks; "none" without any.
  std::string Text() const;
};

// Asked once; all false on machines other than x86-64. AMX needs the kernel's permission per
// process as well, which is not asked for here.
const CpuFeatures& GetCpuFeatures();

}  // namespace dsv4
