// How tokenizer.json spells bytes: 21–7E, A1–AC and AE–FF as the character of the same number, the
// other 68 in ascending order as U+0100 … U+0143 (a blank is "Ġ"). Only loading needs it.
#pragma once

#include <string>
#include <string_view>

namespace dsv4 {

// Appends the bytes that `name` spells. False where a character of it stands for no byte.
bool AppendBytesOf(std::string_view name, std::string& bytes);

// The inverse: how the file spells `bytes`.
std::string ByteLevelName(std::string_view bytes);

}  // namespace dsv4
