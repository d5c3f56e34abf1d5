#include "experiments/world/arguments.hpp"

#include "models/input_error.hpp"

namespace moelab::world {

Arguments read_arguments(int argc, char** argv, const std::string& script) {
  const auto usage = [&](const std::string& problem) {
    throw InputError("", problem + "\nusage: " + script +
                             " [FILE.csv ...] [--format table|json] [--fit]\n"
                             "example: experiments/world/" +
                             script + " mine.csv --format json");
  };
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--fit") {
      a.fit = true;
    } else if (word == "--format") {
      const std::string format = ++i < argc ? argv[i] : "";
      if (format != "table" && format != "json")
        usage("--format: expected table or json, not '" + format + "'");
      a.json = format == "json";
    } else if (word.starts_with("-")) {
      usage("unexpected argument '" + word + "'");
    } else {
      a.files.push_back(word);
    }
  }
  return a;
}

}  // namespace moelab::world
