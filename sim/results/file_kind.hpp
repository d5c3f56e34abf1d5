// What a file is that is no result, for the message of a command that expected one.
#pragma once

#include <string>
#include <string_view>

namespace moelab {

/// By its first bytes, else by its name: "looks like a scenario; 'moelab run s.yaml --out result.json' runs
/// it". Empty where neither says anything. `text`: what of the file is at hand, its begin at least.
std::string kind_of_file(const std::string& file, std::string_view text);

}  // namespace moelab
