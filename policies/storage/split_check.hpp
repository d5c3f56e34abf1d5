// What storage policies share: the check of a finished split.
#pragma once

#include "policies/storage/storage.hpp"

namespace moelab {

/// Throws InputError when a split of the policy named breaks a capacity or the GPU budget.
void check_fits(const StorageSplit& split, std::string_view policy);

}  // namespace moelab
