#include "experiments/world/arguments.hpp"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "models/input_error.hpp"

namespace moelab::world {

Arguments read_arguments(int argc, char** argv, const std::string& script, TakenOptions takes) {
  const auto usage = [&](const std::string& problem) {
    const std::string out = takes.writes ? " [--out FILE.json]" : "", fit = takes.fits ? " [--fit]" : "",
                      example = takes.writes ? " --out mine.json" : "";
    throw InputError("", problem + "\nusage: " + script.substr(script.rfind('/') + 1) + " [FILE.csv ...]" +
                             out + " [--format table|json]" + fit + "\nexample: " + script +
                             " mine.csv --format json" + example);
  };
  std::vector<std::string> known{"--format"};
  if (takes.fits) known.emplace_back("--fit");
  if (takes.writes) known.emplace_back("--out");
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--fit" && takes.fits) {
      a.fit = true;
    } else if (word == "--format") {
      const std::string format = ++i < argc ? argv[i] : "";
      if (format != "table" && format != "json")
        usage("--format: expected table or json, not '" + shown_word(format) + "'");
      a.json = format == "json";
    } else if (word == "--out" && takes.writes) {
      a.out = ++i < argc ? argv[i] : "";
      if (a.out.empty()) usage("--out: expected the name of a file to write");
    } else if (word.starts_with("-")) {
      usage("unexpected argument '" + shown_word(word) + "'" + suggestion(word, known));
    } else {
      a.files.push_back(word);
    }
  }
  return a;
}

void check_result_file(const std::string& out, const std::vector<std::string>& files) {
  if (out.empty()) return;
  std::error_code none;  // of a file that is not there: a result yet to be, an input that its reader misses
  if (std::filesystem::exists(out, none) && !std::filesystem::is_regular_file(out, none))
    throw InputError(out, "is not a regular file; results are written to files only");
  for (const std::string& file : files)
    if (std::filesystem::equivalent(file, out, none))
      throw InputError(out, "is an input; it would be lost under the result");
}

int say_failure(const std::exception& error) {
  std::string text = error.what();
  for (char& c : text)
    if ((c < ' ' && c != '\n') || c == 0x7F) c = '?';
  std::fprintf(stderr, "error: %s\n", text.c_str());
  return 2;
}

}  // namespace moelab::world
