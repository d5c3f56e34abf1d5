// Pieces of YAML as the writers of configuration files put them: what the reader gives back unchanged.
#pragma once

#include <string>
#include <string_view>

namespace moelab::yaml {

/// In double quotes, escaped. Bytes that are not UTF-8 become the replacement character.
std::string quoted(std::string_view text);
/// A key of a map: as it is where that is plain, else quoted.
std::string key(std::string_view text);
/// The shortest decimal that reads back as the same double (finite).
std::string number(double value);

}  // namespace moelab::yaml
