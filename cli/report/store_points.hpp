// A sweep's results in a store (sim/store), as the points of a report.
#pragma once

#include <cstdint>
#include <string>

#include "cli/report/report.hpp"
#include "sim/store/result_store.hpp"

namespace moelab {

/// Whether a file begins as SQLite's do.
bool is_database(const std::string& file);

/// A sweep of a store, by name; "": the only one there. The axes are the sweep's; the series is what the
/// sweep calls so, else the system. Points without a result are counted in `missing`. Throws InputError: no
/// store, no such sweep (with the nearest name), several where none is named, none of its points done.
/// `waits`: as of ResultStore.
Report read_store(const std::string& file, const std::string& sweep, std::uint64_t& missing,
                  LockWait waits = {});

}  // namespace moelab
