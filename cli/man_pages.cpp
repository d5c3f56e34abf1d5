#include "cli/man_pages.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <set>
#include <utility>

#include "cli/name_lists.hpp"
#include "sim/version.hpp"

namespace moelab::cli {
namespace {

/// What roff has a name of its own for.
constexpr std::array<std::pair<char, std::string_view>, 7> kRoffNames = {{{'\\', "\\e"},
                                                                          {'-', "\\-"},
                                                                          {'\'', "\\(aq"},
                                                                          {'"', "\\(dq"},
                                                                          {'`', "\\(ga"},
                                                                          {'^', "\\(ha"},
                                                                          {'~', "\\(ti"}}};

/// The character that starts at `at`, which is moved behind it.
std::uint32_t code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at++);
  const std::uint32_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  std::uint32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
  for (std::uint32_t i = 0; i < more && at < text.size(); ++i) code = (code << 6) | (byte(at++) & 0x3Fu);
  return code;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff_text(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + roff_text(text) + "\\fR";
}

std::vector<const CLI::App*> commands_below(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

/// CLI11 describes what an option takes as "TEXT:{table,json}" or "UINT:INT in [1 - 1024]".
struct Takes {
  std::string value;  // "table|json", "UINT"; "": nothing, a flag
  std::string range;  // "INT in [1 - 1024]"
};

Takes taken_by(const CLI::Option& option) {
  if (option.get_type_size_max() == 0) return {};
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  if (colon == std::string::npos) return {type, ""};
  std::string range = type.substr(colon + 1);
  if (!range.starts_with('{') || !range.ends_with('}')) return {type.substr(0, colon), range};
  range = range.substr(1, range.size() - 2);
  std::replace(range.begin(), range.end(), ',', '|');
  return {range, ""};
}

std::string names_of_options(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return between_commas(names);
}

bool taken_often(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

/// What CLI11's help says beside an option's name.
std::string conditions_of(const CLI::Option& option) {
  std::string text;
  if (const std::string range = taken_by(option).range; !range.empty()) text += " Takes: " + range + ".";
  if (!option.get_default_str().empty()) text += " Default: " + option.get_default_str() + ".";
  if (taken_often(option)) text += " Several may be given.";
  if (option.get_required()) text += " Required.";
  if (!option.get_needs().empty()) text += " Only with " + names_of_options(option.get_needs()) + ".";
  if (!option.get_excludes().empty()) text += " Not with " + names_of_options(option.get_excludes()) + ".";
  return text;
}

std::string tagged(const std::string& head, const std::string& text) {
  return ".TP\n" + head + "\n" + roff_text(text) + "\n";
}

std::string help_with_conditions(const CLI::Option& option) {
  std::string help = option.get_description();
  if (const std::string more = conditions_of(option); !more.empty())
    help += (help.ends_with('.') || help.empty() ? "" : ".") + more;
  return help;
}

std::string positional_paragraph(const CLI::Option& option) {
  return tagged(italic(option.get_name(true)), help_with_conditions(option));
}

std::string option_paragraph(const CLI::Option& option) {
  std::string head;
  for (const std::string& name : option.get_snames()) head += (head.empty() ? "" : ", ") + bold("-" + name);
  for (const std::string& name : option.get_lnames()) head += (head.empty() ? "" : ", ") + bold("--" + name);
  if (const std::string value = taken_by(option).value; !value.empty()) head += " " + italic(value);
  return tagged(head, help_with_conditions(option));
}

/// A section, if there is anything in it.
std::string section(const std::string& name, const std::string& text) {
  return text.empty() ? "" : ".SH " + name + "\n" + text;
}

std::string synopsis(const CLI::App& command, const std::string& words) {
  std::string line = bold(words) + " [" + italic("OPTIONS") + "]";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = italic(option->get_name(true)) + (taken_often(*option) ? " ..." : "");
    line += option->get_required() ? " " + name : " [" + name + "]";
  }
  if (!commands_below(command).empty()) line += " " + italic("COMMAND") + " [" + italic("...") + "]";
  return line + "\n";
}

/// The examples of a help, which end it: each line as it stands.
std::string examples(const CLI::App& command) {
  const std::string footer = command.get_footer();
  const std::size_t begin = footer.find('\n');
  if (begin == std::string::npos) return "";
  std::string text = ".EX\n";
  for (std::size_t at = begin + 1; at < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', at), footer.size());
    const std::string line = footer.substr(at, end - at);
    text += roff_text(line.starts_with("  ") ? line.substr(2) : line) + "\n";
    at = end + 1;
  }
  return text + ".EE\n";
}

constexpr std::string_view kExitStatus =
    ".TP\n0\nAll went well.\n"
    ".TP\n1\nThe program failed: an output could not be written whole, memory ran out, a point of a sweep "
    "failed, or nothing that was asked for fits in the memory; what each system lacks is printed all the "
    "same.\n"
    ".TP\n2\nAn input is wrong; what is wrong stands on standard error, each with its file and line, and "
    "there is no result.\n"
    ".TP\n130\nInterrupted; nothing was written.\n";

constexpr std::string_view kEnvironment =
    ".TP\n\\fBMOELAB_POLICY_PATH\\fR\nLibraries with policies, between colons, for every command that takes "
    "one.\n"
    ".TP\n\\fBMOELAB_PYTHON\\fR\nThe Python that sweeps on a cluster use, if not \\fBpython3\\fR.\n"
    ".TP\n\\fBCOLUMNS\\fR\nThe width of what is printed for people.\n";

/// The pages above a command's, and those below it.
std::string see_also(const CLI::App& command, const std::vector<std::string>& above,
                     const std::string& page) {
  std::vector<std::string> names = above;
  for (const CLI::App* below : commands_below(command)) names.push_back(page + "-" + below->get_name());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",\n") + bold(name) + "(1)";
  return text.empty() ? "" : text + "\n";
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// `above`: pages of the commands that it is one of, from the program's on.
std::string page_text(const CLI::App& command, const std::vector<std::string>& above, const std::string& page,
                      const std::string& words) {
  std::string positionals, options, commands;
  for (const CLI::Option* option : command.get_options())
    if (option->get_positional())
      positionals += positional_paragraph(*option);
    else
      options += option_paragraph(*option);
  for (const CLI::App* below : commands_below(command))
    commands += tagged(bold(page + "-" + below->get_name()) + "(1)", below->get_description());
  std::string summary = command.get_description();
  if (summary.starts_with(page + " ")) summary.erase(0, page.size() + 1);  // "moelab - simulates ..."
  return ".TH " + roff_text(upper_case(page)) + " 1 \"\" \"moelab " + roff_text(program_version()) +
         "\" moelab\n" + section("NAME", roff_text(page) + " \\- " + roff_text(summary) + "\n") +
         section("SYNOPSIS", synopsis(command, words)) + section("ARGUMENTS", positionals) +
         section("OPTIONS", options) + section("COMMANDS", commands) +
         section("EXAMPLES", examples(command)) + section("EXIT STATUS", std::string(kExitStatus)) +
         section("ENVIRONMENT", above.empty() ? std::string(kEnvironment) : "") +
         section("SEE ALSO", see_also(command, above, page));
}

void append_pages(const CLI::App& command, std::vector<std::string> above, const std::string& words,
                  std::vector<ManPage>& pages) {
  std::string page = words;
  std::replace(page.begin(), page.end(), ' ', '-');
  pages.push_back({page, page_text(command, above, page, words)});
  above.push_back(page);
  for (const CLI::App* below : commands_below(command))
    append_pages(*below, above, words + " " + below->get_name(), pages);
}

}  // namespace

std::string roff_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::uint32_t code = code_point(text, at);
    const bool line_begins = out.empty() || out.back() == '\n';
    const auto named = std::find_if(kRoffNames.begin(), kRoffNames.end(), [&](const auto& one) {
      return static_cast<unsigned char>(one.first) == code;
    });
    if (code == '.' && line_begins) out += "\\&";  // else a macro
    if (named != kRoffNames.end()) {
      out += named->second;
    } else if (code < 0x80) {
      out += static_cast<char>(code);
    } else {
      std::array<char, 16> name{};
      std::snprintf(name.data(), name.size(), "\\[u%04X]", static_cast<unsigned>(code));
      out += name.data();
    }
  }
  return out;
}

std::vector<ManPage> man_pages(const CLI::App& program) {
  std::vector<ManPage> pages;
  append_pages(program, {}, "moelab", pages);
  return pages;
}

}  // namespace moelab::cli
