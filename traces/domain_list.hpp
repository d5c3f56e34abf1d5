// The kinds of requests that a trace names, as its metadata hold them: a JSON list of texts. Private to the
// readers and writers of traces.
#pragma once

#include <string>
#include <vector>

namespace moelab {

/// `["code","chat"]`. Throws InputError about `file` when a name is not UTF-8 or comes twice, or there are
/// more than 65536, which is what a place in the list can number.
std::string domain_list_text(const std::string& file, const std::vector<std::string>& domains);

/// The names of such a text, one at least. Throws InputError about `file` where it is none.
std::vector<std::string> parse_domain_list(const std::string& file, const std::string& text);

}  // namespace moelab
