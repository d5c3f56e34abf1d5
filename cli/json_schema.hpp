// JSON Schemas (draft 2020-12) of the files that moelab reads, made of the table of keys: editors complete
// and check files with them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/keys/key_table.hpp"

namespace moelab::cli {

/// The schema of one of kFileKinds. It refuses nothing that the reader takes: a key that is not known, a
/// missing one, another type or name, a number that is out of range, a parameter that the policy has not.
/// What several keys have to say together, and names of other files, the reader alone checks.
nlohmann::ordered_json json_schema(std::string_view kind, const std::vector<KeyRow>& table);

}  // namespace moelab::cli
