// Golden variants at real widths: their checkpoints are made on the spot (0.25 to 1.4 GB each).
#pragma once

#include <filesystem>
#include <string>

namespace dsv4::test {

// Makes the checkpoint of a variant of tests/golden/model-real in `checkpoint` and checks its
// logits, its taps and its MTP block, as GoogleTest expectations.
void CheckRealVariant(const std::string& variant, const std::filesystem::path& checkpoint);

}  // namespace dsv4::test
