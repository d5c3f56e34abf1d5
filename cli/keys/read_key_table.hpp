// The table of keys, made by reading: the program's own files and probes, with what their readers ask for
// noted. It takes half a second, so the build does it once (write_key_table.cpp) and the program has it with
// it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/keys/key_table.hpp"

namespace moelab::cli {

/// As key_table(), by reading.
std::vector<KeyRow> read_key_table();

/// A table as the program keeps it, with the policies that it was made with; and back.
std::string key_document(const std::vector<KeyRow>& rows);
/// Empty where the policies are others now: a library may have brought some.
std::vector<KeyRow> rows_of_key_document(std::string_view document);

/// The one that the program was built with; "": none, it was built for another machine.
std::string_view kept_key_document();

}  // namespace moelab::cli
