// What a run was given, whole: one scenario document that names no other configuration, and the identity of
// the data it reads. It is what a result carries, what can be run again, and what tells two runs apart.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policies/policy_info.hpp"

namespace moelab {

struct Scenario;
struct SystemConfig;

/// A file of data (trace, law, request log, counts, network) that a scenario reads beside its configurations,
/// or policies that come from no file (policies/load_library.hpp).
struct DataFile {
  std::string path;    // as the document names it
  std::string digest;  // of its bytes: XXH3, 64 bits, 16 hexadecimal digits
};

/// Of a file's bytes. Throws InputError for one that cannot be read.
std::string digest_of_file(const std::string& path);
/// Of what brought a policy that is not moelab's own (PolicyInfo::library): of a library's file, or of what
/// is none as add_policies() was given it.
std::string digest_of_origin(const std::string& origin);

/// Reads each file once from beginning to end. Throws InputError for one that cannot be read.
std::vector<DataFile> data_files(const Scenario& scenario);

/// The scenario as JSON with `system` as its only system; moelab::scenario_of_document() reads it back.
std::string scenario_document(const Scenario& scenario, const SystemConfig& system);

/// A scenario_document() with another cache in its system, with that policy's default parameters but for
/// those given, which are not checked here: of the old one what does not depend on the policy stays (keep_as,
/// experts, and domain where the policy leaves the choice), and what sized its pools goes. Where the system
/// has the policy already, its cache stays but for the parameters given.
std::string document_with_cache(const std::string& document, std::string_view policy,
                                const PolicyParameters& parameters = {});

/// 32 hexadecimal digits: XXH3, 128 bits, of a document with each data file's digest in the place of its
/// path.
std::string document_digest(const std::string& document, const std::vector<DataFile>& data);

/// 32 hexadecimal digits that differ wherever a result could: XXH3, 128 bits, of the document with each data
/// file's digest in the place of its path, the settings (which a result records), the executor and this
/// program's version.
std::string run_identity(const std::string& document, const std::vector<DataFile>& data,
                         const std::vector<std::pair<std::string, std::string>>& settings,
                         const std::string& executor);

}  // namespace moelab
