// How long tests wait for other threads.
#pragma once

#include <chrono>

namespace dsv4::test {

// For what must come.
inline constexpr std::chrono::seconds kPatience{60};
// For what must not.
inline constexpr std::chrono::milliseconds kBriefly{30};

}  // namespace dsv4::test
