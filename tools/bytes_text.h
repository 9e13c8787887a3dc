// Amounts as people read them.
#pragma once

#include <string>
#include <string_view>

namespace dsv4::tools {

// Powers of 1000: "159.6 GB".
std::string ScaledText(double value, std::string_view unit);
std::string BytesText(double bytes);

}  // namespace dsv4::tools
