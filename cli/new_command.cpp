// moelab new policy: begin a policy outside moelab.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>
#include <system_error>

#include "cli/commands.hpp"
#include "models/input_error.hpp"
#include "models/text_file.hpp"
#include "policies/policy_families.hpp"
#include "sim/results/shell_word.hpp"

namespace moelab::cli {
namespace {

constexpr std::string_view kTemplate = ".cpp.in";  // behind the family's name

struct NewPolicyArguments {
  std::string family, name;
  std::string folder;  // "": of the policy's name
};

/// Where what policies are written with lies beside this program: as installed, or in a build. Throws
/// InputError where it is in neither.
std::filesystem::path policy_package() {
  std::error_code none;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  for (const char* where : {"..", "../policy"}) {
    const std::filesystem::path package = program / where;
    if (std::filesystem::is_directory(package / "share/moelab/templates", none))
      return std::filesystem::canonical(package);
  }
  throw InputError("moelab new policy",
                   "finds no headers and templates beside the program, expected them in " +
                       (program.parent_path() / "share/moelab/templates").string() +
                       ": install moelab whole (cmake --install)");
}

std::vector<std::string> families_in(const std::filesystem::path& templates) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(templates))
    if (const std::string name = entry.path().filename().string(); name.ends_with(kTemplate))
      names.push_back(name.substr(0, name.size() - kTemplate.size()));
  std::sort(names.begin(), names.end());
  return names;
}

void check_name(const std::string& name) {
  if (!is_policy_name(name))
    throw InputError(
        "moelab new policy",
        "'" + shown_word(name) +
            "' is no name for a policy: expected small letters, digits, - and _, a letter first, "
            "64 at most");
}

std::string filled_in(std::string text, const NewPolicyArguments& options, const std::string& prefix) {
  const std::pair<const char*, const std::string&> values[] = {
      {"@name@", options.name}, {"@family@", options.family}, {"@prefix@", prefix}};
  for (const auto& [key, value] : values)
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size())
      text.replace(at, std::string_view(key).size(), value);
  return text;
}

void begin_policy(const NewPolicyArguments& options) {
  const std::filesystem::path package = policy_package();
  const std::filesystem::path templates = package / "share/moelab/templates";
  const std::vector<std::string> families = families_in(templates);
  if (std::find(families.begin(), families.end(), options.family) == families.end())
    throw InputError("moelab new policy " + shown_word(options.family),
                     "no such family of policies" + suggestion(options.family, families));
  check_name(options.name);
  for (const PolicyFamily& family : policy_families())
    if (family.name == options.family)
      for (const PolicyInfo& info : family.policies)
        if (info.name == options.name)
          throw InputError("moelab new policy", "family " + family.name + " has a policy '" + options.name +
                                                    "' already: expected another name");
  const std::filesystem::path folder = options.folder.empty() ? options.name : options.folder;
  const std::string source = (folder / (options.name + ".cpp")).string(),
                    build = (folder / "CMakeLists.txt").string();
  for (const std::string& file : {source, build})
    if (std::filesystem::exists(file)) throw InputError(file, "is there already; nothing was written");
  std::error_code wrong;
  std::filesystem::create_directories(folder, wrong);
  if (wrong) throw InputError(folder.string(), "cannot be made: " + wrong.message());
  const auto text = [&](const std::string& name) {
    return filled_in(read_text_file((templates / name).string()), options, package.string());
  };
  write_outputs(
      {{source, text(options.family + std::string(kTemplate))}, {build, text("CMakeLists.txt.in")}});
  const std::string at = shell_word(folder.string()), built = shell_word((folder / "build").string());
  const std::string library = shell_word((folder / "build" / ("lib" + options.name + ".so")).string());
  std::cout << "policy " << options.name << " of family " << options.family << ": " << source << "\n"
            << "compile:  cmake -S " << at << " -B " << built << " && cmake --build " << built << "\n"
            << "check:    ctest --test-dir " << built << "\n"
            << "use:      moelab compare SCENARIO --" << options.family << " " << options.name
            << " --policy-library " << library << "\n"
            << "explain:  moelab policies --policy-library " << library << "\n";
}

}  // namespace

void add_new(CLI::App& program) {
  CLI::App* command = program.add_subcommand("new", "Begin something of your own");
  command->require_subcommand(1);
  add_example(*command, "moelab new policy cache my-cache");
  const auto options = std::make_shared<NewPolicyArguments>();
  CLI::App* policy = command->add_subcommand("policy",
                                             "Write the source of a policy that works, to be changed, with "
                                             "what compiles and tests it outside moelab");
  policy
      ->add_option(
          "FAMILY", options->family,
          "batching, cache, execution, placement, planning, prefetch, pressure, residency, routing, schedule "
          "or storage")
      ->required();
  policy->add_option("NAME", options->name, "Its name in scenarios")->required();
  policy->add_option("--out", options->folder, "Folder to write it to; default: the name")
      ->check(names_a_file);
  add_example(*policy, "moelab new policy cache my-cache --out out/my-cache");
  policy->callback([options] { begin_policy(*options); });
}

}  // namespace moelab::cli
