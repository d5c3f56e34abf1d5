// A real server's run beside its replay, request by request. README.md here says how, and how far it is off.
#include <charconv>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "experiments/load/replay_picture.hpp"
#include "models/input_error.hpp"

namespace moelab::replay {
namespace {

struct Arguments {
  std::string folder, tables, picture;
  Named named;
  bool json = false;
};

[[noreturn]] void refuse(const std::string& problem) {
  throw InputError(
      "", problem +
              "\nusage: run.sh FOLDER [--model NAME] [--gpu NAME] [--gpus N] [--runtime NAME] "
              "[--tables FOLDER] [--format table|json] [--plot FILE.svg]\nexample: experiments/load/run.sh "
              "../shared/data/serving-llmservingsim/RTX4090_Llama-3.1-8B --format json");
}

Arguments read_command(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) refuse(word + " needs a value");
      return std::string(argv[++i]);
    };
    if (word == "--model") {
      a.named.model = value();
    } else if (word == "--gpu") {
      a.named.gpu = value();
    } else if (word == "--runtime") {
      a.named.runtime = value();
    } else if (word == "--gpus") {
      const std::string text = value();
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), a.named.gpus);
      if (error != std::errc() || end != text.data() + text.size() || a.named.gpus < 1 || a.named.gpus > 64)
        refuse("--gpus: expected a number from 1 to 64, not '" + shown_word(text) + "'");
    } else if (word == "--tables") {
      a.tables = value();
    } else if (word == "--plot") {
      a.picture = value();
    } else if (word == "--format") {
      const std::string format = value();
      if (format != "table" && format != "json")
        refuse("--format: expected table or json, not '" + shown_word(format) + "'");
      a.json = format == "json";
    } else if (word.starts_with("-") || !a.folder.empty()) {
      refuse("unexpected argument '" + shown_word(word) + "'");
    } else {
      a.folder = word;
    }
  }
  if (a.folder.empty()) refuse("which folder?");
  return a;
}

int run(const Arguments& a) {
  const ServingFolder folder = read_serving_folder(a.folder);
  const Setup setup = set_up(folder, a.named);
  const auto times = a.tables.empty() ? data_sheet_times(setup) : table_times(setup, a.tables);
  const std::string by = a.tables.empty() ? "from data sheets and the constants of runtime " + a.named.runtime
                                          : "from kernel tables, data sheets where they have none";
  const Replay replayed = serve_again(setup, *times);
  const Comparison c = compare(folder, setup, replayed);
  if (!a.picture.empty()) plot::write_svg(replay_figure(folder, setup, replayed, c, by), a.picture);
  const std::string out =
      a.json ? comparison_json(c).dump(1) + "\n" : comparison_text(folder, setup, replayed, c, by);
  std::fputs(out.c_str(), stdout);
  if (!a.json && !a.picture.empty()) std::printf("picture: %s\n", a.picture.c_str());
  return 0;
}

}  // namespace
}  // namespace moelab::replay

int main(int argc, char** argv) {
  try {
    return moelab::replay::run(moelab::replay::read_command(argc, argv));
  } catch (const std::exception& error) {
    std::string text = error.what();  // with words of files in it
    for (char& c : text)
      if ((c < ' ' && c != '\n') || c == 0x7F) c = '?';
    std::fprintf(stderr, "error: %s\n", text.c_str());
    return 2;
  }
}
