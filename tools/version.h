#pragma once

#include <string>

namespace dsv4::tools {

// Several lines: the version, the compiler, the kernel set in use, the libraries' versions.
std::string VersionText();

}  // namespace dsv4::tools
