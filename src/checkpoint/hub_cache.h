// Models named as on the Hugging Face hub, found in its local cache. Nothing is downloaded.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace dsv4 {

// An existing folder or file is taken as it is. Else `model` is org/name or org/name@revision and
// is looked up in the cache's layout: models--org--name/refs/REVISION (main by default) holds the
// hash of snapshots/HASH; a revision may be such a hash too. Errors say where was looked and what
// is there.
Result<std::filesystem::path> ResolveModel(std::string_view model,
                                           const std::filesystem::path& hub_cache);

}  // namespace dsv4
